"""How good a run is, what it cost and how fast its model is."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from regard.errors import UserError
from regard.files import sealed, unsealed, write
from regard.tasks.config import BaseRecipe
from regard.tasks.folder import load_folder
from regard.tasks.judging import Judge, Judged
from regard.tasks.registry import TASKS
from regard.training.checkpoint import log_entries, newest
from regard.training.plan import Plan

JUDGED = "judged.json"
TIMED, ROUNDS = 200, 3  # items at most by which a model is timed, and how often


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    judged: Judged
    parameters: int
    flops: float | None
    seconds: float


def judge_of(recipes: Mapping[str, BaseRecipe], **asked: Any) -> Judge:
    """The judge of their task, and what it is asked to judge by."""
    spec = TASKS[next(iter(recipes.values())).task]
    if spec.judge is None:
        raise UserError(f"models for {spec.purpose} cannot be compared yet")
    return spec.judge(recipes=recipes, **asked)


def judge_run(folder: Path, judge: Judge) -> Run:
    """Judge a run whose training has ended, keep that in its folder, and give back what was kept."""
    run = Run(judged=judge.judge(opened(folder, judge)), **_cost(folder))
    write(folder / JUDGED, sealed({"by": judge.name, **asdict(run)}))
    stored = stored_run(folder, judge)
    assert stored is not None
    return stored


def stored_run(folder: Path, judge: Judge) -> Run | None:
    """What was kept of a run, if it was judged by the same."""
    try:
        stored = unsealed(json.loads((folder / JUDGED).read_bytes()))
        if stored.pop("by") != judge.name:
            return None
        return Run(**{**stored, "judged": Judged(**stored["judged"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def speeds(folders: Mapping[str, Path], judge: Judge, asked: Sequence[Any]) -> dict[str, float]:
    """Items a second of each model, the median of rounds that are interleaved, after one that does not count."""
    sample = asked[:: -(-len(asked) // TIMED)]
    models = {name: opened(folder, judge) for name, folder in folders.items()}
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            began = time.perf_counter()
            judge.answer(model, sample)
            spent[name].append(time.perf_counter() - began)
    return {name: len(sample) / median(each[1:]) for name, each in spent.items()}


def opened(folder: Path, judge: Judge) -> Any:
    loaded = load_folder(folder)
    return loaded.spec.runtime(loaded, threads=judge.threads)


def _cost(folder: Path) -> dict[str, Any]:
    """By the newest checkpoint; updates after it, until patience ended the run, are taken to cost as much as others."""
    last = log_entries(folder / "metrics.jsonl")[-1]
    found: dict[str, Any] = {"parameters": Plan.load(folder / "plan.json").parameters}
    checkpoint, _ = newest(folder / "checkpoints")
    if checkpoint is None:
        return {**found, "flops": None, "seconds": last["seconds"]}
    state = json.loads((checkpoint / "state.json").read_bytes())
    flops = state["flops"] * max(1.0, last["step"] / state["step"])
    return {**found, "flops": flops, "seconds": max(state["seconds"], last["seconds"])}
