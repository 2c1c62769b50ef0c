"""How many processes and threads train: asked for, found by trial, or planned before."""

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from regard.engine import engine
from regard.errors import UserError
from regard.progress import say
from regard.training.checkpoint import Weights
from regard.training.distributed import ALONE, World, companions
from regard.training.loop import Trainer
from regard.training.optimizer import Optimizer
from regard.training.plan import TRIALS, Plan, make_plan, timed

WORTH = 60.0  # seconds of training from which on several processes are tried: to start them takes some
MOST = 8  # processes that are tried; more share too few rows of a batch


@dataclass(frozen=True)
class Cores:
    """What a user asked for; the rest is found by trial."""

    processes: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("processes", "threads"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"`{name}` {value} cannot work; use 1 or more")


AS_FOUND = Cores()


def plan_for(trainer: Trainer) -> Plan:
    say("trying the largest batch; timing a few steps and an evaluation")
    probe, update = throw_away(trainer)
    rehearse = lambda: trainer.task.rehearse(probe, trainer.engine(probe))  # noqa: E731
    return make_plan(trainer.task, probe, trainer.config, update, rehearse)


def throw_away(trainer: Trainer) -> tuple[nn.Module, Callable[[int], object]]:
    """A copy of the model, and updates of it that count for nothing."""
    probe = copy.deepcopy(trainer.weights.model)
    weights = Weights(probe, Optimizer(probe, trainer.config), None)
    return probe, lambda step: trainer.update(weights, step)


def settle(trainer: Trainer, out: Path, cores: Cores, companion: Sequence[str], world: World, stack: ExitStack) -> Plan:
    """The stored plan, or a new one; with the processes that it needs, which wait for the first step."""
    stored = _stored(out)
    plan = stored or plan_for(trainer)
    several = min(MOST, engine.cores()) if cores.threads is None and plan.seconds > WORTH else 1
    wanted = cores.processes or several if world.size == 1 else world.size
    size = stored.processes if stored else wanted
    if world.size not in (1, size):
        raise UserError(f"{out} was planned for {size} processes, not {world.size}; start {size}, or use another `out`")
    if size > 1:
        asked_for = cores.processes is not None or world.size > 1
        trainer.world = world if world.size > 1 else stack.enter_context(companions(size, out, companion))
        trainer.world.told(1)  # the folder is prepared
        threads = trainer.world.told(0 if stored else cores.threads or max(1, engine.cores() // size))
        if stored is None:
            torch.set_num_threads(threads)
            an_update, an_evaluation = _tried(trainer)
            shared = replace(plan, an_evaluation=an_evaluation).paced(trainer.config, an_update)
            if asked_for or shared.an_update < plan.an_update:
                plan = replace(shared, processes=size, threads=threads)
            else:
                trainer.world.told(0)
                stack.close()
                trainer.world = ALONE
    plan.save(out / "plan.json")
    torch.set_num_threads(plan.threads)
    trainer.world.told(1)
    return plan


def keep_step(trainer: Trainer, out: Path, world: World) -> None:
    """What a companion of `settle` does meanwhile, and then its share of the run."""
    if threads := world.told(0):
        torch.set_num_threads(threads)
        _tried(trainer)
    if world.told(0):
        plan = Plan.load(out / "plan.json")
        torch.set_num_threads(plan.threads)
        trainer.resume()
        trainer.run(plan)


def _tried(trainer: Trainer) -> tuple[float, float]:
    """Seconds of an update and of an evaluation, with all processes at work."""
    probe, update = throw_away(trainer)
    return timed(update, TRIALS), trainer.task.rehearse(probe, trainer.engine(probe))


def _stored(out: Path) -> Plan | None:
    path = out / "plan.json"
    if not path.exists():
        return None
    plan = Plan.load(path)
    if plan.torch != torch.__version__:
        say(f"planned with torch {plan.torch}, now {torch.__version__}: results may differ in their last digits")
    return plan
