"""Learning rates: functions of the update's number."""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.train.config import TrainConfig


def rate(config: TrainConfig, step: int, steps: int) -> float:
    """Of update `step`, counted from 0, among `steps`: linear to the peak, then by the schedule."""
    warmup = config.warmup if config.warmup >= 1 else config.warmup * steps
    if step + 1 < warmup:
        return config.lr * (step + 1) / warmup
    return config.lr * SCHEDULES[config.schedule](step + 1, max(1.0, warmup), steps)


# From the update (counted from 1), the updates of warm-up, and all updates, to a share of the peak.
SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda step, warmup, steps: 1.0,
    "inverse_sqrt": lambda step, warmup, steps: (warmup / step) ** 0.5,  # [Vaswani+ 2017, eq. 3]
    "linear": lambda step, warmup, steps: (steps + 1 - step) / max(1.0, steps + 1 - warmup),
    "cosine": lambda step, warmup, steps: (
        0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps + 1 - warmup)))
    ),
}
