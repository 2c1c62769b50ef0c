from itertools import pairwise

import pytest

from regard.errors import UserError
from regard.tasks.config import SCHEDULES, TrainConfig


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rates_rise_to_their_peak_and_follow_their_formula(schedule: str) -> None:
    config = TrainConfig(steps=100, lr=0.01, warmup=10, schedule=schedule)  # type: ignore[arg-type]
    rates = [config.rate(step, 100) for step in range(100)]
    assert rates[:9] == pytest.approx([0.001 * (i + 1) for i in range(9)])
    assert max(rates) == pytest.approx(0.01)
    assert rates[9] == pytest.approx(0.01)
    last = {"constant": 0.01, "inverse_sqrt": 0.01 * (10 / 100) ** 0.5, "linear": 0.01 / 91}
    if schedule in last:
        assert rates[-1] == pytest.approx(last[schedule])
    else:
        assert 0 < rates[-1] < 1e-5
    assert all(a >= b for a, b in pairwise(rates[9:]))


def test_a_share_of_warm_up_is_a_share_of_all_steps() -> None:
    config = TrainConfig(steps=200, lr=1.0, warmup=0.1, schedule="constant")
    assert config.rate(9, 200) == pytest.approx(0.5)
    assert config.rate(19, 200) == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "steps, epochs, minutes"),
        ({"steps": 1, "minutes": 1}, "steps 1, minutes 1.*steps, epochs, minutes"),
        ({"steps": 0}, "steps 0 .*1 "),
        ({"steps": 1, "label_smoothing": 1.0}, "label_smoothing 1 "),
        ({"steps": 1, "clip": -1.0}, "clip -1 .*0 "),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TrainConfig(**settings)  # type: ignore[arg-type]
