"""The training loop: update, evaluate, save; interrupted anywhere, it goes on to the same end."""

import copy
import io
import json
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.engine.engine import Engine
from regard.errors import StoppedError, UserError
from regard.files import append, digest
from regard.nn.lora import state_of
from regard.progress import Progress
from regard.rng import Key
from regard.tasks.config import TrainConfig
from regard.tasks.task import AnyTask
from regard.training.checkpoint import TrainState, Weights, check_finite, fill_with_mean, newest, steps_in
from regard.training.distributed import ALONE, LostRankError, SharedEngine, World, sum_gradients
from regard.training.optimizer import Optimizer
from regard.training.plan import Plan

LATELY = 0.05  # of the steps: so many updates tell the pace
CHECKS = 50  # times that it is compared with the minutes


class InterruptedTrainingError(StoppedError):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, signum: int, step: int) -> None:
        name = signal.Signals(signum).name
        super().__init__(f"stopped by {name} after step {step}; everything is saved; run the same command to go on")
        self.exit_code = 128 + signum


class Updated(NamedTuple):
    """What came of an update: the mean loss per token before it, its tokens, and the signal to stop, or 0."""

    loss: float
    tokens: int
    stop: int


class Trainer:
    """One run of one task, in one folder."""

    def __init__(
        self,
        task: AnyTask,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        *,
        engine: Callable[[nn.Module], Engine],
        keep_best: Callable[[nn.Module, dict[str, float]], None],
        report: Callable[[dict[str, float], int], None] | None = None,
        world: World = ALONE,
    ) -> None:
        self.task, self.config, self.folder, self.world = task, config, folder, world
        self.make_engine, self.keep_best, self.report = engine, keep_best, report
        average = copy.deepcopy(model) if 0 < config.average < 1 else None
        self.weights = Weights(model, Optimizer(model, config), average)
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "metrics.jsonl"
        self.state = TrainState()
        self._epoch: tuple[int, Any] = (0, task.batches(config.seed, 0))

    def resume(self) -> list[str]:
        """Take up the newest whole checkpoint, if there is one; tells what was passed over."""
        checkpoint, passed = newest(self.checkpoints)
        if checkpoint is not None:
            self.state = self.weights.restore(checkpoint, self.world)
        if self.world.leads and self.log.exists():  # what was logged after the checkpoint will be logged again
            os.truncate(self.log, min(self.state.logged, self.log.stat().st_size))
            if self.state.log_sum not in ("", digest(self.log)):
                passed.append(f"{self.log}: has changed since it was written; the curve of this run may be wrong")
        return passed

    def run(self, plan: Plan) -> TrainState:
        """To the plan's last step, or until patience ends."""
        times = (plan.evaluations, self.config.checkpoints, 0 if self.config.minutes is None else CHECKS)
        evaluate_at, save_at, check_at = map(plan.marks, times)
        lately = deque[float](maxlen=max(1, int(LATELY * plan.steps)))  # seconds of updates
        patience = math.inf if self.config.patience is None else self.config.patience
        progress = Progress(plan.steps, "train", None if self.world.leads else io.StringIO())
        # A second signal kills at once.
        with stop_signals(lambda signum: signal.signal(signum, signal.SIG_DFL)) as asked, progress as bar:
            bar.update(plan.position(self.state.step))
            while self.state.step < plan.end and self.state.stale < patience:
                began = time.perf_counter()
                try:
                    done = self.update(self.weights, self.state.step, plan, asked)
                except LostRankError:  # the last whole step is saved, unless part of its state died too
                    if self.world.leads and self.state.step and self.weights.carry is None:
                        self.weights.save(self.checkpoints, self.state, self._averaged(save_at), ALONE)
                    raise
                self._follow()
                spent = time.perf_counter() - began
                lately.append(spent)
                cost = sum(plan.cost(self.task.shape(name)) for name in self._names(self.state.step))
                self.state = self.state.after(done.tokens, spent, cost)
                step = self.state.step
                if step in evaluate_at:
                    bar.line(self._evaluate(self.weights.average or self.weights.model, {"train_loss": done.loss}))
                best = "" if self.state.best is None else f"best {self.task.primary[0]} {self.state.best:.2f}"
                speed = f"{done.tokens / spent:,.0f} {self.task.counts}/s"
                bar.update(plan.position(step), loss=f"loss {done.loss:.3f}", speed=speed, best=best)
                if step in save_at or done.stop:
                    self.weights.save(self.checkpoints, self.state, self._averaged(save_at), self.world)
                if done.stop:
                    raise InterruptedTrainingError(done.stop, step)
                if step in check_at and len(lately) == lately.maxlen:
                    plan = self._keep_minutes(plan, sum(lately) / len(lately), bar)
                    evaluate_at, save_at, check_at = map(plan.marks, times)
            if self.config.average >= 2:
                self.world.told(0)  # that the last is saved
                last = [path for path in steps_in(self.checkpoints) if int(path.name[5:]) in self._averaged(save_at)]
                mean = copy.deepcopy(self.weights.model)
                fill_with_mean(mean, last)
                scores = self._evaluate(mean, {"averaged": len(last)})
                bar.line(f"mean of the last {len(last)} checkpoints: {scores}")
        return self.state

    def _keep_minutes(self, plan: Plan, an_update: float, bar: Progress) -> Plan:
        """The plan, with another end if at this pace the run would end late, or long before its time."""
        step, minutes = self.state.step, self.config.minutes or 0.0
        end = self.world.told(plan.end_within(minutes, step, self.state.seconds, an_update))
        changed = plan if end == plan.end else replace(plan, changes=(*plan.changes, (step, end)))
        if changed is not plan and self.world.leads:
            changed.save(self.folder / "plan.json")
            pace, within = "slower" if end < plan.end else "faster", f"to end within {minutes:g} minutes"
            bar.line(f"the machine is {pace} than planned: {end:,} steps instead of {plan.end:,}, {within}")
        return changed

    def engine(self, model: nn.Module) -> Engine:
        alone = self.make_engine(model)
        return alone if self.world.size == 1 else SharedEngine(alone, self.world)

    def update(self, weights: Weights, step: int, plan: Plan | None = None, asked: Sequence[int] = ()) -> Updated:
        """One step of the optimizer, over the shares of all processes; a signal to one is told to all."""
        model, carry = weights.model, weights.carry
        model.zero_grad()
        names, total, weight = self._names(step), 0.0, 0.0
        for part, name in enumerate(names):
            mine = self.world.share(name)
            if not len(mine):
                continue
            key = Key(self.config.seed, ("step", step, part))
            loss = self.task.loss(model, self.task.load(mine), carry, self.world.key(key))
            loss.total.backward()
            carry = loss.carry
            total, weight = total + float(loss.total.detach()), weight + loss.weight
        total, weight, stop = sum_gradients(model, (total, weight, max(asked, default=0)), self.world)
        if not math.isfinite(total):
            raise UserError(
                f"the loss of step {step + 1} is {total} ({self.task.describe(names[0])}); "
                "lower train.lr, raise train.warmup, or look at that data"
            )
        _scale([p.grad for p in model.parameters() if p.grad is not None], weight, self.config.clip)
        lr = self.config.lr if plan is None else self.config.rate(plan.position(step + 1) - 1, plan.steps)
        weights.optimizer.move(lr, self.world)
        weights.carry = carry
        return Updated(total / weight, int(weight), int(stop))

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
        for buffer, now in zip(self.weights.average.buffers(), self.weights.model.buffers(), strict=True):
            buffer.copy_(now)

    def _averaged(self, save_at: set[int]) -> list[int]:
        """Steps whose checkpoints are averaged if the run ends here: planned ones alone, not those that a stop left."""
        count = int(self.config.average)
        return sorted(step for step in save_at if step <= self.state.step)[-count:] if count else []

    def _evaluate(self, model: nn.Module, known: dict[str, float]) -> str:
        began = time.perf_counter()
        metrics = {**known, **self.task.evaluate(model, self.engine(model))}
        name, direction = self.task.primary
        value, best = metrics[name], self.state.best
        better = best is None or (value > best if direction == "higher" else value < best)
        stale = self.world.told(0 if better else self.state.stale + 1)
        state = replace(self.state, seconds=self.state.seconds + time.perf_counter() - began, stale=stale)
        if better:
            state = replace(state, best=value, best_step=state.step)
        entry = {"step": state.step, "seconds": round(state.seconds, 1), "tokens": state.tokens, **metrics}
        line = json.dumps(entry).encode() + b"\n"
        if self.world.leads:
            if better:
                check_finite(state_of(model), f"model after step {state.step}")
                self.keep_best(model, metrics)
            append(self.log, line)
            state = replace(state, log_sum=digest(self.log))
            if self.report is not None:
                self.report(metrics, state.step)
        self.state = replace(state, logged=state.logged + len(line))
        shown = " · ".join(f"{key} {number:.3f}" for key, number in metrics.items())
        return f"step {state.step} · {shown}{' · best so far' if better else ''}"


def _scale(gradients: list[Tensor], weight: float, largest: float) -> None:
    """From a sum to a mean, and down to the largest norm that is wanted, if one is; in one pass."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))) / weight
    shorter = (largest / (norm + 1e-6)).clamp(max=1.0) if largest else torch.ones_like(norm)
    torch._foreach_mul_(gradients, shorter / weight)


@contextmanager
def stop_signals(then: Callable[[int], object]) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM are noted, to be obeyed later; `then` is called with each as it comes."""
    asked: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        asked.append(signum)
        then(signum)

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
