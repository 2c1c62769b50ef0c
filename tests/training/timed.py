"""A task that takes as long as a test says, by a clock of its own; and two processes that train on it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import torch
from torch import nn

from regard.rng import Key
from regard.tasks.config import TrainConfig
from regard.tasks.task import Loss, Shape
from regard.training.distributed import ALONE, World
from regard.training.loop import Trainer
from regard.training.plan import Plan

Pace = Callable[[float], float]  # seconds of an update that begins then


class Timed:
    """A plane is fitted; in `killed_after` updates the process dies."""

    counts, about, primary = "tokens", "", ("loss", "lower")

    def __init__(self, pace: Pace, evaluation: float = 0.0, killed_after: int = 1 << 30) -> None:
        self.pace, self.evaluation, self.left, self.now = pace, evaluation, killed_after, 0.0
        self.evaluated = 0

    def batches(self, seed: int, epoch: int) -> list[Any]:
        return [6 * i + np.arange(6) for i in range(10)]

    def load(self, name: Any) -> torch.Tensor:
        rows = [Key(0, ("row", int(i))).generator().standard_normal(3) for i in name]
        return torch.tensor(np.array(rows), dtype=torch.float32)

    def shape(self, name: Any) -> Shape:
        return Shape(len(name), 1, 1, len(name), len(name))

    def describe(self, name: Any) -> str:
        return str(name)

    def loss(self, model: nn.Module, batch: torch.Tensor, carry: Any, key: Key | None) -> Loss:
        if not self.left:
            raise KilledError
        self.left -= 1
        self.now += self.pace(self.now)
        assert key is not None
        noise = 0.1 * torch.tensor(key.generator().standard_normal(len(batch)), dtype=torch.float32)
        return Loss((model(batch)[:, 0] - batch.sum(1) + noise).square().sum(), float(len(batch)))

    def evaluate(self, model: nn.Module, engine: Any) -> dict[str, float]:
        self.now += self.evaluation
        self.evaluated += 1
        return {"loss": float(model(torch.eye(3)).detach().square().sum())}


class KilledError(Exception):
    """As if by kill -9."""


def trainer(task: Timed, folder: Path, world: World = ALONE, **settings: Any) -> Trainer:
    """From a fresh model, by the task's clock from now on."""
    time.perf_counter = lambda: task.now
    torch.manual_seed(0)
    config = TrainConfig(**{"minutes": 1.0, "metric": "loss", "evaluations": 4, "checkpoints": 5, **settings})
    nothing: Any = lambda *_: Mock(about="")  # noqa: E731
    return Trainer(task, nn.Linear(3, 1), config, folder, engine=nothing, keep_best=nothing, world=world)  # type: ignore[arg-type]


def planned(config: TrainConfig, an_update: float = 0.1, an_evaluation: float = 0.5) -> Plan:
    plan = Plan(an_evaluation=an_evaluation, threads=1, torch="", machine="", parameters=0, flops=(0.0,) * 8)
    return plan.paced(config, an_update)


def main(meeting: str, rank: str, folder: str) -> None:
    """The leading one becomes slower; only its clock counts."""
    torch.set_num_threads(1)
    world = World.join(meeting, int(rank), 2)
    run = trainer(Timed(lambda now: 0.1 if now < 20 or rank == "1" else 0.3), Path(folder), world)
    state = run.run(planned(run.config))
    print(json.dumps([state.step, [p.flatten().tolist() for p in run.weights.model.parameters()]]))
    world.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
