import pytest
from torch import nn

from regard.train import plan
from regard.train.config import TrainConfig


@pytest.mark.parametrize(
    ("minutes", "evaluation", "evaluations", "steps"),
    [
        (10.0, 30.0, 2, 5220),  # 582 seconds after the reserve, 15 % of which hold two evaluations of 30
        (10.0, 1.0, 20, 5620),  # all that were asked for
        (0.1, 60.0, 1, 1),  # one there must be, however long it takes
    ],
)
def test_minutes_hold_updates_and_evaluations(
    minutes: float, evaluation: float, evaluations: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = iter([plan.TRIALS * 0.1, evaluation])
    monkeypatch.setattr(plan, "_seconds", lambda work: next(took))
    monkeypatch.setattr(plan, "try_largest", lambda task, model: None)
    monkeypatch.setattr(plan, "count_flops", lambda task, model: [0.0] * 5)
    config = TrainConfig(minutes=minutes)
    made = plan.make_plan(None, nn.Linear(2, 3), config, lambda model, step: None, lambda model: None)  # type: ignore[arg-type]
    assert (made.evaluations, made.steps) == (evaluations, steps)
    assert made.parameters == 9
