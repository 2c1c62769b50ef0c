"""A model that may be tried on one step, from which a pass is reckoned, and on no more."""

from typing import Any

import pytest

from regard.shapes import Padded


def run_on_one_step_alone(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    forward = model.forward

    def checked(*inputs: Any) -> Any:
        steps = {x.tokens.shape[1] if isinstance(x, Padded) else x.shape[1] for x in inputs[:-1]}
        assert steps == {1}, "it was run"
        return forward(*inputs)

    monkeypatch.setattr(model, "forward", checked)
