"""Contract 7: models learn. Copy here; reverse, sort and lengths on demand (`make learn`)."""

from dataclasses import replace

import pytest
from bench.learning import MODELS, exact_match, learn

from regard.models.build import build


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("RNN, additive attention", 300), ("tiny Transformer", 250)])
def test_copying_is_learned(name: str, steps: int) -> None:
    config, budget = MODELS[name]
    model = build(config, seed=1)
    learn(model, "copy", replace(budget, steps=steps), lengths=(10, 10), seed=1)
    assert exact_match(model, "copy", 10) >= 0.99
