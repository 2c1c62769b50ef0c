"""Contract 7: models learn. Copy here; reverse, sort and lengths on demand (`make learn`)."""

from dataclasses import replace

import pytest
from bench.learning import MODELS, exact_match, learn

from regard.models.build import build


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("RNN, additive attention", 250), ("tiny Transformer", 200)])
def test_copying_is_learned(name: str, steps: int) -> None:
    config, budget = MODELS[name]
    model = build(config, seed=1)
    learn(model, "copy", replace(budget, steps=steps, batch=32), lengths=(6, 6), seed=1)
    assert exact_match(model, "copy", 6) >= 0.99
