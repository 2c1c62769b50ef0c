"""The training loop: update, evaluate, save; interrupted anywhere, it goes on to the same end."""

from __future__ import annotations

import copy
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from regard.engine.torch import Engine
from regard.errors import UserError
from regard.files import append
from regard.progress import Progress
from regard.rng import Key
from regard.tasks.task import Task
from regard.train.checkpoint import TrainState, Weights, fill_with_mean, newest, steps_in
from regard.train.config import TrainConfig
from regard.train.plan import Plan


class InterruptedTrainingError(Exception):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name} after step {step}; everything is saved")
        self.exit_code = 128 + signum


class Trainer:
    """One run of one task, in one folder."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        *,
        engine: Callable[[nn.Module], Engine],
        keep_best: Callable[[nn.Module, dict[str, float]], None],
        report: Callable[[dict[str, float], int], None] | None = None,
    ) -> None:
        self.task, self.config, self.folder = task, config, folder
        self.engine, self.keep_best, self.report = engine, keep_best, report
        self.weights = Weights(
            model, self.optimizer_of(model), copy.deepcopy(model) if 0 < config.average < 1 else None
        )
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "metrics.jsonl"
        self.state = TrainState()
        self._epoch: tuple[int, Any] = (0, task.batches(config.seed, 0))

    def optimizer_of(self, model: nn.Module) -> torch.optim.Optimizer:
        config = self.config
        return torch.optim.AdamW(
            model.parameters(), lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, eps=1e-9, fused=True
        )

    def resume(self) -> list[str]:
        """Take up the newest whole checkpoint, if there is one; tells what was passed over."""
        checkpoint, passed = newest(self.checkpoints)
        if checkpoint is not None:
            self.state = self.weights.restore(checkpoint)
        if self.log.exists():  # what was logged after the checkpoint will be logged again
            os.truncate(self.log, min(self.state.logged, self.log.stat().st_size))
        return passed

    def run(self, plan: Plan) -> TrainState:
        """To the plan's last step, or until patience ends."""
        evaluate_at = _marks(plan.steps, plan.evaluations)
        save_at = _marks(plan.steps, self.config.checkpoints)
        with _signals() as asked, Progress(plan.steps, "train") as bar:
            bar.update(self.state.step)
            while self.state.step < plan.steps and not self._out_of_patience():
                began = time.perf_counter()
                loss = self.update(self.weights, self.state.step, plan)
                self._follow()
                spent = time.perf_counter() - began
                cost = sum(plan.cost(self.task.shape(name)) for name in self._names(self.state.step))
                self.state = self.state.after(loss[1], spent, cost)
                step = self.state.step
                best = "" if self.state.best is None else f"best {self.task.primary[0]} {self.state.best:.2f}"
                bar.update(step, loss=f"loss {loss[0]:.3f}", speed=f"{loss[1] / spent:,.0f} tokens/s", best=best)
                if step in evaluate_at:
                    bar.line(self._evaluate(self.weights.average or self.weights.model, {"train_loss": loss[0]}))
                if step in save_at or asked:
                    self.weights.save(self.checkpoints, self.state, max(2, int(self.config.average)))
                if asked:
                    raise InterruptedTrainingError(asked[0], step)
            if self.config.average >= 2:
                last = steps_in(self.checkpoints)[-int(self.config.average) :]
                mean = copy.deepcopy(self.weights.model)
                fill_with_mean(mean, last)
                bar.line(f"mean of the last {len(last)} checkpoints: {self._evaluate(mean, {'averaged': len(last)})}")
        return self.state

    def update(self, weights: Weights, step: int, plan: Plan | None) -> tuple[float, int]:
        """One step of the optimizer; the mean loss per token before it, and how many tokens that was."""
        model, optimizer = weights.model, weights.optimizer
        optimizer.zero_grad()
        total, weight = 0.0, 0.0
        for part, name in enumerate(self._names(step)):
            key = Key(self.config.seed, ("step", step, part))
            loss = self.task.loss(model, self.task.load(name), weights.carry, key)
            loss.total.backward()
            weights.carry = loss.carry
            if not math.isfinite(value := float(loss.total.detach())):
                raise UserError(
                    f"the loss of step {step + 1} is {value} ({self.task.describe(name)}); "
                    "lower train.lr, raise train.warmup, or look at that data"
                )
            total, weight = total + value, weight + loss.weight
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        torch._foreach_div_(gradients, weight)
        if self.config.clip:
            _clip(gradients, self.config.clip)
        for group in optimizer.param_groups:
            group["lr"] = self.config.lr if plan is None else self.config.rate(step, plan.steps)
        optimizer.step()
        return total / weight, int(weight)

    def _names(self, step: int) -> list[Any]:
        """The batches of an update: a pure function of its number."""
        names = []
        for part in range(self.config.accumulate):
            epoch, index = divmod(step * self.config.accumulate + part, len(self._epoch[1]))
            if epoch != self._epoch[0]:
                self._epoch = epoch, self.task.batches(self.config.seed, epoch)
            names.append(self._epoch[1][index])
        return names

    @torch.no_grad()
    def _follow(self) -> None:
        """The average of the weights follows them, faster in the beginning."""
        if self.weights.average is None:
            return
        decay = min(self.config.average, (1 + self.state.step) / (10 + self.state.step))
        follower: list[Tensor] = list(self.weights.average.parameters())
        torch._foreach_lerp_(follower, list(self.weights.model.parameters()), 1 - decay)

    def _evaluate(self, model: nn.Module, known: dict[str, float]) -> str:
        began = time.perf_counter()
        metrics = {**known, **self.task.evaluate(model, self.engine(model))}
        name, direction = self.task.primary
        value = metrics[name]
        better = self.state.best is None or (
            value > self.state.best if direction == "higher" else value < self.state.best
        )
        state = replace(self.state, seconds=self.state.seconds + time.perf_counter() - began)
        if better:
            state = replace(state, best=value, best_step=state.step, stale=0)
            self.keep_best(model, metrics)
        else:
            state = replace(state, stale=state.stale + 1)
        entry = {"step": state.step, "seconds": round(state.seconds, 1), "tokens": state.tokens, **metrics}
        line = json.dumps(entry).encode() + b"\n"
        append(self.log, line)
        if self.report is not None:
            self.report(metrics, state.step)
        self.state = replace(state, logged=state.logged + len(line))
        shown = " · ".join(f"{key} {number:.3f}" for key, number in metrics.items())
        return f"step {state.step} · {shown}{' · best so far' if better else ''}"

    def _out_of_patience(self) -> bool:
        return self.config.patience is not None and self.state.stale >= self.config.patience


def _marks(steps: int, times: int) -> set[int]:
    """Steps at which something happens `times` times, evenly, the last at the end."""
    return {math.ceil(steps * i / times) for i in range(1, times + 1)}


def _clip(gradients: list[Tensor], largest: float) -> None:
    """Scale down a gradient whose norm is too large."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (largest / (norm + 1e-6)).clamp(max=1.0))


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM are noted, and obeyed after the step; a second one kills at once."""
    asked: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        asked.append(signum)
        signal.signal(signum, signal.SIG_DFL)

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
