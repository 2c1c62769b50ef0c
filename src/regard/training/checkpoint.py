"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError
from regard.files import MARK, broken, check_space, write_folder
from regard.nn.lora import state_of
from regard.tasks.task import Carry
from regard.training.distributed import ALONE, World
from regard.training.optimizer import Optimizer


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """Where a run is; data order, dropout and learning rate are functions of `step`."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    seconds: float = 0.0  # of training and evaluation so far
    flops: float = 0.0
    tokens: int = 0  # target tokens trained on
    logged: int = 0  # bytes of metrics.jsonl that belong to this state
    log_sum: str = ""
    """Their sha256."""

    def after(self, tokens: int, seconds: float, flops: float) -> "TrainState":
        """One update later."""
        grown = replace(self, tokens=self.tokens + tokens, seconds=self.seconds + seconds, flops=self.flops + flops)
        return replace(grown, step=self.step + 1)


@dataclass(eq=False)
class Weights:
    """What changes while training: the model, its optimizer, the average of its weights if one is kept, and what a
    recurrent model of running text remembers of it."""

    model: nn.Module
    optimizer: Optimizer
    average: nn.Module | None
    carry: Carry | None = None

    def save(self, folder: Path, state: TrainState, keep: Collection[int] = (), world: World = ALONE) -> None:
        """Into folder/step-N, whole or not at all; then older ones go, but for the last two and those to keep."""
        carry = None if self.carry is None else {name: world.rows(x) for name, x in self.carry.items()}
        if not world.leads:
            return
        groups = {"model": state_of(self.model), "optimizer": dict(self._moments())}
        if self.average is not None:
            groups["average"] = state_of(self.average)
        if carry is not None:
            groups["carry"] = carry
        contents: dict[str, Callable[[Path], None] | bytes] = {}
        for group, tensors in groups.items():
            check_finite(tensors, f"{group} after step {state.step}")
            plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
            contents[f"{group}.safetensors"] = partial(save_file, plain)
        contents["state.json"] = json.dumps(asdict(state)).encode()
        folder.mkdir(parents=True, exist_ok=True)
        check_space(folder, int(1.2 * sum(t.nbytes for group in groups.values() for t in group.values())))
        place = folder / f"step-{state.step}"
        if place.exists():  # a damaged one that was passed over
            shutil.rmtree(place)
        write_folder(place, contents)
        for old in steps_in(folder)[:-2]:
            if int(old.name[5:]) not in keep:
                shutil.rmtree(old)
        for leftover in folder.glob(f"{MARK}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def restore(self, checkpoint: Path, world: World = ALONE) -> TrainState:
        _fill(state_of(self.model), checkpoint / "model.safetensors")
        if self.average is not None:
            _fill(state_of(self.average), checkpoint / "average.safetensors")
        if (carried := checkpoint / "carry.safetensors").exists():
            self.carry = {name: world.share(x) for name, x in load_file(carried).items()}
        state = TrainState(**json.loads((checkpoint / "state.json").read_bytes()))
        for group in self.optimizer.param_groups:  # AdamW's moments' places, which the first step would make
            for parameter in group["params"]:
                moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.optimizer.state[parameter] = {"step": torch.tensor(float(state.step)), **moments}
        _fill(dict(self._moments()), checkpoint / "optimizer.safetensors")
        return state

    def _moments(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.model.named_parameters():
            for moment, value in self.optimizer.state[parameter].items():
                if moment != "step":
                    yield f"{name}.{moment}", value


def steps_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    found = [p for p in folder.glob("step-*") if p.is_dir() and p.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def newest(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies, and why newer ones were passed over."""
    passed: list[str] = []
    for checkpoint in reversed(steps_in(folder)):
        if (reason := broken(checkpoint)) is None:
            return checkpoint, passed
        passed.append(f"{checkpoint}: {reason}")
    return None, passed


@torch.no_grad()
def fill_with_mean(model: nn.Module, checkpoints: list[Path]) -> None:
    """Give a model the mean of the weights in some checkpoints."""
    for checkpoint in checkpoints:
        if reason := broken(checkpoint):
            raise UserError(
                f"{checkpoint}: {reason}, so the mean of {len(checkpoints)} checkpoints cannot be made; restore it, or "
                "lower train.average and continue the run; the best model so far is kept"
            )
    stored = [load_file(checkpoint / "model.safetensors") for checkpoint in checkpoints]
    for name, tensor in state_of(model).items():  # of what counts, the last
        rows = torch.stack([weights[name] for weights in stored])
        tensor.copy_(rows.mean(0) if rows.is_floating_point() else rows[-1])


def check_finite(tensors: Mapping[str, Tensor], what: str) -> None:
    """Raise before weights are kept that no run could go on with."""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{name} of the {what} is not finite, so it is not saved; lower train.lr or raise train.warmup, and "
                "continue from the last checkpoint, or begin anew"
            )


def log_entries(path: Path) -> list[dict[str, Any]]:
    """The evaluations in metrics.jsonl; lines that were damaged are left out."""
    entries = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, RecursionError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]


@torch.no_grad()
def _fill(into: dict[str, Tensor], path: Path) -> None:
    stored = load_file(path)
    wrong = sorted(into.keys() ^ stored.keys()) + [
        name for name in into.keys() & stored.keys() if into[name].shape != stored[name].shape
    ]
    if wrong:
        raise UserError(f"{path}: does not fit this model ({', '.join(wrong[:5])}); was the recipe changed?")
    for name, tensor in into.items():
        tensor.copy_(stored[name])
