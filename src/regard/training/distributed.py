"""Several processes that train one model: each takes its share of every batch, and all sum their gradients.

Over PyTorch's gloo; started by `regard train` itself, or by torchrun on several machines.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from regard.decode.config import Hypothesis, Search
from regard.engine.engine import Engine, Sources
from regard.errors import StoppedError
from regard.rng import Key

PATIENCE = timedelta(hours=6)  # the others wait while one evaluates; the death of one they notice at once
MEETING = ".meeting-"  # begins the name of the folder in which the processes of a run find each other
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


class LostRankError(StoppedError):
    """Another process of the run is gone."""


@dataclass(frozen=True)
class World:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @staticmethod
    def of_torchrun() -> "World":
        """As torchrun's environment has it, and as that of anyone else, who is alone."""
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys() or os.environ["WORLD_SIZE"] == "1":
            return World()
        distributed.init_process_group("gloo", timeout=PATIENCE)
        return World(distributed.get_rank(), distributed.get_world_size())

    @staticmethod
    def join(meeting: str, rank: int, size: int) -> "World":
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
        """In place, over all processes; gloo goes round the ring of ranks, so the order is fixed."""
        if self.size > 1:
            with _others():
                distributed.all_reduce(x)

    def rows(self, x: Tensor) -> Tensor:
        """What was shared, whole again."""
        if self.size == 1:
            return x
        self.sum(count := torch.tensor(len(x)))
        whole = x.new_zeros(int(count), *x.shape[1:])
        whole[self.rank :: self.size] = x
        self.sum(whole)
        return whole

    def summed(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Each over all processes, in one go."""
        if self.size == 1 or not parts:
            return list(parts)
        self.sum(row := torch.cat([part.flatten() for part in parts]))
        return [x.view_as(part) for x, part in zip(row.split([p.numel() for p in parts]), parts, strict=True)]

    def told(self, number: int) -> int:
        """What the leading one says, and all hear."""
        box = torch.tensor(number)
        if self.size > 1:
            with _others():
                distributed.broadcast(box, 0)
        return int(box)

    def leave(self) -> None:
        if self.size > 1:
            distributed.destroy_process_group()


ALONE = World()


class SharedEngine:
    """Each process decodes its share, and all know the best of every sentence."""

    def __init__(self, engine: Engine, world: World) -> None:
        self.engine, self.world = engine, world
        self.about = engine.about

    def decode(self, sources: Sources, search: Search, **how: Any) -> list[list[Hypothesis]]:
        mine = [hypotheses[0] for hypotheses in self.engine.decode(self.world.share(sources), search, **how)]
        lengths = self.world.rows(torch.tensor([max((len(h.tokens) for h in mine), default=0)]))
        table = torch.full((len(mine), int(lengths.max()) + 3), -1.0, dtype=torch.float64)
        for row, h in zip(table, mine, strict=True):
            row[: len(h.tokens) + 3] = torch.tensor([len(h.tokens), h.log_prob, h.score, *h.tokens])
        rows = self.world.rows(table).tolist()
        return [[Hypothesis([int(t) for t in row[3 : 3 + int(row[0])]], row[1], row[2])] for row in rows]


def sum_gradients(model: nn.Module, told: Sequence[float], world: World) -> list[float]:
    """Over all processes, in one row, with a few numbers that are summed beside them."""
    if world.size == 1:
        return list(told)
    parameters = [p for p in model.parameters() if p.requires_grad]
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]  # one that had no rows has none
    *gradients, summed = world.summed([*parts, parts[0].new_tensor(told)])
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    numbers: list[float] = summed.tolist()
    return numbers


@contextmanager
def companions(size: int, out: Path, command: Sequence[str]) -> Iterator[World]:
    """Start the other processes on this machine by a command, which is told where they meet, its rank and the size."""
    for leftover in out.glob(f"{MEETING}*"):  # of a run that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=MEETING, dir=out) as folder:
        meeting = str(Path(folder) / "file")
        ranks = [subprocess.Popen([*command, meeting, str(rank), str(size)]) for rank in range(1, size)]
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
        raise LostRankError("another process of this run has died; run the same command to go on") from error
