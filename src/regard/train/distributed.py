"""Several processes that train one model: each takes its share of every batch, and all sum their gradients.

Over PyTorch's gloo; started by `regard train` itself, or by torchrun on several machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from regard.decode.config import Search
from regard.decode.job import Hypothesis
from regard.engine.torch import Engine
from regard.rng import Key

PATIENCE = timedelta(hours=6)  # the others wait while one evaluates; the death of one they notice at once
TOLD = 3  # numbers that travel with the gradients: loss, weight, and whether someone was asked to stop
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


class LostRankError(Exception):
    """Another process of the run is gone."""


@dataclass(frozen=True)
class World:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @staticmethod
    def of_torchrun() -> World:
        """As torchrun's environment has it, and as that of anyone else, who is alone."""
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys() or os.environ["WORLD_SIZE"] == "1":
            return World()
        distributed.init_process_group("gloo", timeout=PATIENCE)
        return World(distributed.get_rank(), distributed.get_world_size())

    @staticmethod
    def join(meeting: str, rank: int, size: int) -> World:
        """Meet the others over a file of this machine."""
        if sys.platform in LOOPBACK:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
        store = distributed.FileStore(meeting, size)  # type: ignore[attr-defined]
        with _others():
            distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
        return World(rank, size)

    @property
    def leads(self) -> bool:
        """One evaluates, saves and speaks."""
        return self.rank == 0

    def share(self, rows: Any) -> Any:
        """Its own of the rows of a batch; neighbours are of like length, so each has about as much to do."""
        return rows[self.rank :: self.size]

    def key(self, key: Key) -> Key:
        """Its own randomness."""
        return key.fold("rank", self.rank) if self.size > 1 else key

    def sum(self, x: Tensor) -> None:
        """In place, over all processes, in the order of their ranks."""
        if self.size > 1:
            first, *others = self._gather(x)
            x.copy_(first)
            for other in others:
                x.add_(other)

    def rows(self, x: Tensor) -> Tensor:
        """What was shared, whole again."""
        if self.size == 1:
            return x
        self.sum(count := torch.tensor(len(x)))
        most = -(-int(count) // self.size)
        parts = self._gather(F.pad(x, (0, 0) * (x.dim() - 1) + (0, most - len(x))))
        return torch.stack(parts, 1).flatten(0, 1)[: int(count)]

    def largest(self, number: int) -> int:
        return number if self.size == 1 else int(max(self._gather(torch.tensor(number))))

    def told(self, number: int) -> int:
        """What the leading one says, and all hear."""
        if self.size > 1:
            box = torch.tensor(number)
            with _others():
                distributed.broadcast(box, 0)
            return int(box)
        return number

    def leave(self) -> None:
        if self.size > 1:
            distributed.destroy_process_group()

    def _gather(self, x: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(x) for _ in range(self.size)]
        with _others():
            distributed.all_gather(parts, x)
        return parts


ALONE = World()


class SharedEngine:
    """Each process decodes its share, and all know the best of every sentence."""

    def __init__(self, engine: Engine, world: World) -> None:
        self.engine, self.world = engine, world
        self.refuses = engine.refuses

    def decode(
        self, sources: Sequence[Sequence[int]], search: Search, *, tick: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        mine = [hypotheses[0] for hypotheses in self.engine.decode(self.world.share(sources), search, tick=tick)]
        longest = self.world.largest(max((len(h.tokens) for h in mine), default=0))
        told = torch.full((len(mine), longest + 3), -1.0, dtype=torch.float64)
        for row, h in zip(told, mine, strict=True):
            row[: len(h.tokens) + 3] = torch.tensor([len(h.tokens), h.log_prob, h.score, *h.tokens])
        rows = self.world.rows(told).tolist()
        return [[Hypothesis([int(t) for t in row[3 : 3 + int(row[0])]], row[1], row[2])] for row in rows]


class Gradients:
    """All gradients of a model in one row, so that they are summed, scaled and clipped as one."""

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        self.all = parameters[0].new_zeros(sum(p.numel() for p in parameters) + TOLD, requires_grad=False)
        self.row, self.told = self.all[:-TOLD], self.all[-TOLD:]
        for parameter, part in zip(parameters, self.row.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter)

    def clip(self, largest: float) -> None:
        """Scale down a gradient whose norm is too large."""
        self.row.mul_((largest / (torch.linalg.vector_norm(self.row) + 1e-6)).clamp(max=1.0))


@contextmanager
def companions(size: int, *arguments: str | Path) -> Iterator[World]:
    """Start the other processes on this machine, each `regard.cli.rank` with these arguments."""
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        meeting = str(Path(folder) / "meeting")
        command = [sys.executable, "-m", "regard.cli.rank"]
        ranks = [
            subprocess.Popen([*command, meeting, str(rank), str(size), *map(str, arguments)]) for rank in range(1, size)
        ]
        world = World.join(meeting, 0, size)
        try:
            yield world
        finally:
            world.leave()
            for process in ranks:
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextmanager
def _others() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostRankError("another process of this run has died") from error
