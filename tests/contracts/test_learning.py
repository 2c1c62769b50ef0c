"""Contract 7: models learn. Copy here; reverse, sort and lengths on demand (`make learn`)."""

from dataclasses import replace

import pytest
from bench.learning import MODELS, exact_match, learn

from regard.models.build import build


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "batch", "length"),
    [
        ("RNN, additive attention", 250, 32, 6),
        ("tiny Transformer", 200, 32, 6),
        pytest.param("RNN, additive attention", 300, 64, 10, marks=pytest.mark.full),
        pytest.param("tiny Transformer", 250, 64, 10, marks=pytest.mark.full),
    ],
)
def test_copying_is_learned(name: str, steps: int, batch: int, length: int) -> None:
    config, budget = MODELS[name]
    model = build(config, seed=1)
    learn(model, "copy", replace(budget, steps=steps, batch=batch), lengths=(length, length), seed=1)
    assert exact_match(model, "copy", length) >= 0.99
