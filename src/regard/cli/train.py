"""`regard train`: joins data, model, task and loop, in one folder that anyone can run afterwards."""

from __future__ import annotations

import ctypes
import fcntl
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch

from regard import recipe as recipes
from regard.cli.card import card, training_curve
from regard.cli.processes import AS_FOUND, Cores, keep_step, settle
from regard.cli.starter import Asked
from regard.cli.tasks import Told, inputs_of, save_words, task_for, trainer_for
from regard.data.text import lines
from regard.errors import UserError
from regard.files import digest, sealed, unsealed, write
from regard.progress import duration, say
from regard.tasks.prepare import HELD
from regard.train.checkpoint import steps_in
from regard.train.config import AnyRecipe, ReadRecipe, read_recipe
from regard.train.distributed import ALONE, LostRankError, World
from regard.train.loop import InterruptedTrainingError

INPUTS = "inputs.json"  # the files that a run reads, with their sums
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def run(
    asked: Asked,
    out: Path | None,
    cores: Cores,
    start: Path | None,
    new_words: Path | None,
    goes_on: bool,
    tensorboard: bool,
) -> None:
    recipe, told = asked.recipe()
    world = World.of_torchrun()
    for line in told if world.leads else ():
        say(line)
    new = [] if new_words is None else [line.strip() for line in lines(new_words, strict=True) if line.strip()]
    launch(recipe, out or asked.folder, cores, start, goes_on, tensorboard, world, new)


def launch(
    recipe: AnyRecipe,
    out: Path,
    cores: Cores,
    start: Path | None,
    goes_on: bool,
    tensorboard: bool,
    world: World = ALONE,
    new_words: Sequence[str] = (),
) -> None:
    """Train in a folder that no other run is in."""
    if not world.leads:
        return follow(out, start, world)
    if cores.threads is not None:
        torch.set_num_threads(cores.threads)
    keep_memory()
    if isinstance(recipe, ReadRecipe) and start is not None:
        recipe, start = replace(recipe, model=replace(recipe.model, base=str(start))), None
    with _alone(out):
        _same_run(out, recipe, inputs_of(recipe, start), goes_on)
        save_words(recipe, out, start, new_words)
        try:
            train(recipe, out, cores, start, tensorboard, world)
        except InterruptedTrainingError as stopped:
            say(f"regard: {stopped}; run the same command to go on")
            sys.exit(stopped.exit_code)
        except LostRankError as error:
            say(f"regard: {error}; run the same command to go on")
            sys.exit(1)


def train(
    recipe: AnyRecipe,
    out: Path,
    cores: Cores = AS_FOUND,
    start: Path | None = None,
    tensorboard: bool = False,
    world: World = ALONE,
) -> None:
    """From the recipe, and the weights of another model if given, to a finished folder; takes up what is there."""
    report = _tensorboard(out) if tensorboard else None
    task, told = task_for(recipe, out)
    say(told)
    trainer = trainer_for(recipe, out, task, start, report)
    with ExitStack() as others:
        plan = settle(trainer, out, cores, start, world, others)
        told = f", about {duration(plan.seconds)}" if plan.seconds else ""
        working = f"{plan.processes} processes of {plan.threads}" if plan.processes > 1 else f"{plan.threads}"
        say(f"{plan.parameters:,} parameters, {plan.steps:,} steps, {working} thread{'s'[: plan.threads > 1]}{told}")
        for passed in trainer.resume():
            say(f"passed over {passed}")
        if trainer.state.step:
            say(f"going on after step {trainer.state.step}")
        if trainer.state.step >= plan.steps:
            say("this run is finished; for more, --continue with more --minutes, or choose another --out")
        state = trainer.run(plan)
    write(out / "README.md", card(recipe, plan, state, out).encode())
    try:
        write(out / "curve.svg", training_curve(out, task.primary[0]).encode())
    except UserError as error:  # no matplotlib, or no finite point to draw
        say(f"curve.svg is left out: {error}")
    say(f"done: best {task.primary[0]} {state.best:.2f} at step {state.best_step}; the model is in {out}")


def follow(out: Path, start: Path | None, world: World) -> None:
    """As a companion of the process that leads: the same model, a share of every batch, not a word."""
    keep_memory()
    try:
        world.told(0)  # the folder is prepared
        if not (out / "recipe.yaml").exists():
            raise UserError(f"{out} is empty on this machine; --out must be a folder that all machines share")
        recipe = read_recipe(out / "recipe.yaml")
        if other := _changed_inputs(out, inputs_of(recipe, start)):
            raise UserError(f"{other[0]}: differs from the file of the leading process; give all the same data")
        task, _ = task_for(recipe, out)
        keep_step(trainer_for(recipe, out, task, start, world=world), out, world)
    except (InterruptedTrainingError, LostRankError):
        sys.exit(1)  # the leading one has said why


def _tensorboard(out: Path) -> Told:
    """Evaluations as TensorBoard reads them, beside metrics.jsonl, which has the same."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError("--tensorboard needs a package more; pip install 'regard[tensorboard]'") from error

    def report(metrics: dict[str, float], step: int) -> None:
        # What a killed run had told from this step on is told again, so it is purged.
        with SummaryWriter(str(out / "tensorboard"), purge_step=step) as writer:
            for name, value in metrics.items():
                writer.add_scalar(name, value, step)

    return report


def keep_memory() -> None:
    """Have the C library keep freed memory for the next step; faulting it in anew cost up to a quarter of the time."""
    with suppress(AttributeError):  # glibc alone has these settings
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def _same_run(out: Path, recipe: AnyRecipe, inputs: Sequence[Path], goes_on: bool) -> None:
    """Store the recipe and the sums of the files that the run reads, or compare them with those in the folder."""
    stored = out / "recipe.yaml"
    changed = recipes.differences(read_recipe(stored), recipe) if stored.exists() else []
    other_data = any(line.startswith("data.") for line in changed)
    files = [] if other_data else _changed_inputs(out, inputs)
    changed += [f"{path} has changed since the run began" for path in files]
    listed = "\n  ".join(changed)
    begun = (out / "plan.json").exists() or bool(steps_in(out / "checkpoints"))
    if changed and begun and not goes_on:
        raise UserError(
            f"{out} holds a run of {'other data' if files else 'another recipe'}:\n  {listed}\n"
            "choose another --out, undo the change, or go on with it by --continue"
        )
    if changed and begun:
        fixed = [line for line in changed if line.startswith(("model.", "data.tokenizer"))]
        if fixed:
            raise UserError("a run that goes on keeps these:\n  " + "\n  ".join(fixed) + "\nuse --from instead")
        say(f"going on with changes:\n  {listed}")
        (out / "plan.json").unlink(missing_ok=True)
    if changed and (files or other_data or not begun):
        shutil.rmtree(out / "store", ignore_errors=True)
        # Where nothing was trained yet, the tokenizers belong to the old recipe too.
        for leftover in [out / name for name in HELD] + ([] if begun else list(out.glob("tokenizer*.json"))):
            leftover.unlink(missing_ok=True)
    if changed or not (stored.exists() and (out / INPUTS).exists()):
        write(stored, recipes.dump(recipe).encode())
        write(out / INPUTS, sealed({"files": [[str(path), digest(path)] for path in inputs]}))


def _changed_inputs(out: Path, inputs: Sequence[Path]) -> list[Path]:
    """Files that are not as they were when the run began."""
    if not (out / INPUTS).exists():
        return []
    try:
        before = [total for _, total in unsealed(json.loads((out / INPUTS).read_bytes()))["files"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{out / INPUTS}: is damaged ({error}); remove it if the data are as they were") from error
    now = [digest(path) for path in inputs]
    return [path for path, one, other in zip_longest(inputs, before, now) if one != other and path is not None]


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """One run at a time in a folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}); choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"{out}: another run is at work there; wait for it, or choose another --out") from error
        yield
