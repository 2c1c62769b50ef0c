"""The plan: what depends on the machine, decided once before the first step and kept for every resume."""

import json
import math
import platform
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from regard.errors import UserError
from regard.files import sealed, unsealed, write
from regard.rng import Key
from regard.tasks.config import TrainConfig
from regard.tasks.task import AnyTask, Shape

# PyTorch's formulas, which know the fused kernels of GPUs only by name.
_flash = "_scaled_dot_product_flash_attention{}"
FUSED = {_flash.format(f"_for_cpu{end}"): getattr(torch.ops.aten, _flash.format(end)) for end in ("", "_backward")}
WARM, TRIALS = 5, 20  # updates before the clock runs, and while it does
TRIED = 0.01  # of the minutes: so long updates are tried at least
RESERVE = 0.03  # of the minutes, for checkpoints and whatever else the machine does
EVALUATING = 0.1  # of the minutes at most, if more than one evaluation is to fit
EARLY, LATE = 0.8, 1.1  # shares of the time left that a run may need; beyond, it gets another end
LITTLE = 0.02  # of the minutes: nothing is changed for so short a time


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Exactness is promised per plan: the same machine kind, torch, processes, threads and steps."""

    steps: int = 0
    evaluations: int = 1
    seconds: float = 0.0  # that all of it should take
    an_update: float = 0.0  # seconds of it, as tried
    an_evaluation: float = 0.0
    processes: int = 1
    threads: int  # of each process
    torch: str
    machine: str
    parameters: int
    flops: tuple[float, ...]
    """Of an update's forward and backward pass, as coefficients of the `terms` of its shape."""
    changes: tuple[tuple[int, int], ...] = ()
    """Updates after which the rest of the schedule ends with another update, and which."""

    @property
    def end(self) -> int:
        """The last update."""
        return self.changes[-1][1] if self.changes else self.steps

    def position(self, step: int) -> float:
        """The place of update `step`, counted from 1, in the schedule of `steps`: its number, until a change."""
        for first, end in reversed(self.changes):
            if step > first:
                return self.steps - (self.steps - self.position(first)) * (end - step) / (end - first)
        return step

    def marks(self, times: int) -> set[int]:
        """Updates at which something happens `times` times, evenly along the schedule, the last at its end."""
        places = (math.ceil(self.steps * i / times) for i in range(1, times + 1))
        return {bisect_left(range(self.end), float(place), key=self.position) for place in places}

    def end_within(self, minutes: float, step: int, seconds: float, an_update: float) -> int:
        """The last update to keep the minutes, after `step` updates in so many seconds, at this pace; the planned one
        if that is about right, and up to the last change, which a resumed run repeats."""
        if step >= self.end or (self.changes and step <= self.changes[-1][0]):
            return self.end
        left = minutes * 60 * (1 - RESERVE) - seconds
        evaluations = sum(mark > step for mark in self.marks(self.evaluations))
        evaluating = evaluations * self.an_evaluation * an_update / self.an_update  # which are slower or faster too
        needed = (self.end - step) * an_update + evaluating
        if EARLY * left <= needed <= LATE * left or abs(needed - left) < LITTLE * minutes * 60:
            return self.end
        return step + max(1, int((left - evaluating) / an_update))

    def save(self, path: Path) -> None:
        write(path, sealed(asdict(self)))

    @staticmethod
    def load(path: Path) -> "Plan":
        try:
            return TypeAdapter(Plan).validate_python(unsealed(json.loads(path.read_bytes())))
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{path}: no whole plan ({error!s:.200}); restore the file, or remove it, and the run is planned "
                "anew, with other steps perhaps if it has train.minutes"
            ) from error

    def cost(self, shape: Shape) -> float:
        return float(np.dot(self.flops, shape.terms))

    def paced(self, config: TrainConfig, an_update: float) -> "Plan":
        """As many steps and evaluations as are wanted, or fit into the minutes at this pace."""
        steps, evaluations = config.steps, config.evaluations
        if steps is None:
            assert config.minutes is not None
            budget = config.minutes * 60 * (1 - RESERVE)
            evaluations = max(1, min(evaluations, int(budget * EVALUATING / max(self.an_evaluation, 1e-3))))
            steps = max(1, int((budget - evaluations * self.an_evaluation) / an_update))
        evaluations = min(steps, evaluations)
        seconds = steps * an_update + evaluations * self.an_evaluation
        return replace(self, steps=steps, evaluations=evaluations, seconds=seconds, an_update=an_update)


def make_plan(
    task: AnyTask, probe: nn.Module, config: TrainConfig, update: Callable[[int], object], rehearse: Callable[[], float]
) -> Plan:
    """Tries the largest batch, counts its work, and times throw-away updates of a probe."""
    try_largest(task, probe)
    plan = Plan(
        an_evaluation=rehearse(),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        machine=platform.machine() + " " + torch.backends.cpu.get_cpu_capability(),
        parameters=sum(p.numel() for p in probe.parameters()),
        flops=tuple(count_flops(task, probe)),
    )
    an_update = timed(update, TRIALS)
    long = int(TRIED * 60 * (config.minutes or 0) / an_update)
    return plan.paced(config, timed(update, long) if long > TRIALS else an_update)


def timed(update: Callable[[int], object], trials: int) -> float:
    """Seconds of an update, once it is warm."""
    for trial in range(WARM):
        update(trial)
    began = time.perf_counter()
    for trial in range(trials):
        update(trial)
    return (time.perf_counter() - began) / trials


def try_largest(task: AnyTask, model: nn.Module) -> None:
    """Better now than in the last hour."""
    name = task.largest()
    try:
        task.loss(model, task.load(name), None, Key(0)).total.backward()
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error):
            raise
        what = f"the largest batch ({task.shape(name)}) does not fit in memory"
        raise UserError(f"{what}; lower train.batch_tokens or data.max_length") from error


def count_flops(task: AnyTask, model: nn.Module) -> list[float]:
    """Coefficients of the terms of a shape, from counted batches: matrix products are polynomials of it."""
    names = sorted(task.batches(0, 0), key=task.shape)
    chosen = [names[i * (len(names) - 1) // 15] for i in range(16)]
    counted, rows = [], []
    for name in chosen:
        # Without mkldnn, whose recurrent layers hide their products from the counter; and without its word on GPUs.
        plain = torch.backends.mkldnn.flags(enabled=False)
        with _Products() as products, warnings.catch_warnings(action="ignore"), plain:  # type: ignore[no-untyped-call]
            task.loss(model, task.load(name), None, None).total.backward()
        counted.append(products.flops)
        rows.append(task.shape(name).terms)
    scale = np.array(rows).max(0) + 1.0
    solution = np.linalg.lstsq(np.array(rows) / scale, np.array(counted, dtype=float), rcond=None)[0]
    return [float(x) for x in solution / scale]


class _Products(TorchDispatchMode):
    """Counts as PyTorch's FlopCounterMode does, in a third of the time."""

    flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, operation = func(*args, **(kwargs or {})), func.overloadpacket
        if count := flop_registry.get(FUSED.get(operation.__name__, operation)):
            self.flops += count(*args, **(kwargs or {}), out_val=out)
        return out
