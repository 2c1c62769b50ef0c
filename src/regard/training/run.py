"""A run: joins data, model, task and loop, in one folder that anyone can use afterwards; the same call goes on."""

import ctypes
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

import torch

from regard import __version__
from regard import recipe as recipes
from regard.data.text import check_regular
from regard.data.tokenizer import ForeignTokenizer, Tokenizers
from regard.engine.engine import engine_of
from regard.errors import UserError
from regard.files import input_digest, locked, sealed, unsealed, write
from regard.look.charts import curve
from regard.progress import duration, say
from regard.tasks.config import BaseRecipe
from regard.tasks.folder import Loaded, has_tokenizers, load_tokenizers, save_model, save_tokenizers
from regard.tasks.registry import TASKS, read_recipe
from regard.tasks.task import AnyTask
from regard.training.checkpoint import TrainState, log_entries, steps_in
from regard.training.distributed import ALONE, World
from regard.training.launch import AS_FOUND, Cores, keep_step, settle
from regard.training.loop import Trainer
from regard.training.plan import Plan

INPUTS = "inputs.json"  # the files that a run reads, with their sums
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
Report = Callable[[dict[str, float], int], None]  # is given metrics, and the step that they are of


class Models(Protocol):
    """Where models to begin with come from: folders of ours and of others."""

    def load_any(self, path: Path) -> Loaded: ...
    def words_of(self, path: Path) -> Tokenizers: ...
    def files_of(self, path: Path) -> list[Path]: ...


@dataclass(frozen=True)
class Run:
    """What is trained where, and from what on."""

    recipe: BaseRecipe
    out: Path
    models: Models
    start: Path | None = None  # a model to begin with that the recipe does not name

    @property
    def begins_with(self) -> Path | None:
        named = self.recipe.init_from
        return self.start if named is None else Path(named)

    @cached_property
    def base(self) -> Loaded | None:
        """Read once in a process."""
        return None if self.begins_with is None else self.models.load_any(self.begins_with)

    @cached_property
    def task(self) -> AnyTask:
        return TASKS[self.recipe.task].prepare(self.recipe, self.out, self.base)

    def inputs(self) -> list[Path]:
        """Every file that a run reads: its data, and the model that it begins with."""
        names = (self.begins_with, self.recipe.tokenizer_from)
        others = [path for name in names if name is not None for path in self.models.files_of(Path(name))]
        return [check_regular(path) for path in (*TASKS[self.recipe.task].files(self.recipe), *others)]

    def save_tokenizers(self, new: Sequence[str] = ()) -> None:
        """Those of the model that is begun with, once, before anything else; it keeps them, and may get new words."""
        if new and self.begins_with is None:
            raise UserError("`new_words` adds to the words of a model that is begun with; give it by `start`")
        given = self.begins_with or self.recipe.tokenizer_from
        if has_tokenizers(self.out):
            if new and (missing := set(new) - set(load_tokenizers(self.out).target.new_words)):
                raise UserError(f"{self.out} was begun without the new word {min(missing)!r}; choose another `out`")
        elif given is not None:
            found = self.base.words if self.base is not None else self.models.words_of(Path(given))
            if self.recipe.own_tokenizers and isinstance(found.target, ForeignTokenizer):
                raise UserError(
                    f"{given}: another tool's translator runs here but is not trained further; drop `start`"
                )
            save_tokenizers(self.out, found.extended(new))

    def trainer(self, report: Report | None = None, world: World = ALONE) -> Trainer:
        """A new model, or one with the weights of another, and what trains it."""
        recipe, task, out, config = self.recipe, self.task, self.out, self.recipe.train
        if config.epochs is not None:  # steps take their place
            steps = round(config.epochs * len(task.batches(config.seed, 0)) / config.accumulate)
            config = replace(config, steps=max(1, steps), epochs=None)
        return Trainer(
            task,
            TASKS[recipe.task].model(recipe, task, out, self.base),
            config,
            out,
            engine=lambda model: engine_of(model, torch.get_num_threads()),
            keep_best=lambda model, best: save_model(out, model, recipe.task, recipe.search, recipe.longest, best),
            report=report,
            world=world,
        )


def train(
    run: Run,
    *,
    cores: Cores = AS_FOUND,
    goes_on: bool = False,
    tensorboard: bool = False,
    world: World = ALONE,
    new_words: Sequence[str] = (),
    companion: Sequence[str] = (),
) -> None:
    """Train in the folder of a run, which no other is in, with further processes by the command `companion`.

    Raises InterruptedTrainingError or LostRankError where it was stopped.
    """
    out = run.out
    if not world.leads:
        follow(out, run.models, run.start, world)
        return
    if cores.threads is not None:
        torch.set_num_threads(cores.threads)
    keep_memory()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror}); choose another `out`") from error
    with locked(out / ".lock", f"{out}: another run is at work there; wait for it, or choose another `out`"):
        _same_run(out, run.recipe, run.inputs(), goes_on)
        run.save_tokenizers(new_words)
        _train(run, cores, companion, _tensorboard(out) if tensorboard else None, world)


def _train(run: Run, cores: Cores, companion: Sequence[str], report: Report | None, world: World) -> None:
    """To a finished folder; takes up what is there."""
    out, task = run.out, run.task
    say(task.about)
    trainer = run.trainer(report)
    with ExitStack() as others:
        plan = settle(trainer, out, cores, companion, world, others)
        takes = f", about {duration(plan.seconds)}" if plan.seconds else ""
        working = f"{plan.processes} processes of {plan.threads}" if plan.processes > 1 else f"{plan.threads}"
        say(f"{plan.parameters:,} parameters, {plan.end:,} steps, {working} thread{'s'[: plan.threads > 1]}{takes}")
        for passed in trainer.resume():
            say(f"passed over {passed}")
        if trainer.state.step:
            say(f"going on after step {trainer.state.step}")
        if trainer.state.step >= plan.end:
            say("this run is finished; for more, `goes_on` with more `minutes`, or choose another `out`")
        state = trainer.run(plan)
    write(out / "README.md", _card(run.recipe, task, plan, state, out).encode())
    metric = task.primary[0]
    numbers = ((entry.get("seconds"), entry.get(metric)) for entry in log_entries(out / "metrics.jsonl"))
    points = [(x / 60, y) for x, y in numbers if isinstance(x, int | float) and isinstance(y, int | float)]
    try:
        write(out / "curve.svg", curve({metric: points}, "minutes", metric, out.name).encode())
    except UserError as error:  # no matplotlib, or no finite point to draw
        say(f"curve.svg is left out: {error}")
    say(f"done: best {metric} {state.best:.2f} at step {state.best_step}; the model is in {out}")


def _card(recipe: BaseRecipe, task: AnyTask, plan: Plan, state: TrainState, folder: Path) -> str:
    """The model card, in Markdown: what a model is, what it was trained on, what it cost, how good it is."""
    entries = (entry for entry in log_entries(folder / "metrics.jsonl") if entry.get("step") == state.best_step)
    best: dict[str, float] = next((entry for entry in entries if entry.get(task.primary[0]) == state.best), {})
    shown = {name: value for name, value in best.items() if name not in ("step", "seconds", "tokens")}
    scores = "\n".join(f"| {name} | {value:.4g} |" for name, value in shown.items() if isinstance(value, int | float))
    trained, what = ", ".join(map(str, recipe.corpora[0])), f"{recipe.model.kind} for {TASKS[recipe.task].purpose}"
    return f"""# {folder.name}

A {what}, trained by Regard {__version__}. `regard run {folder} < input.txt`

| trained on | {trained} |
|---|---|
| parameters | {plan.parameters:,} |
| updates | {state.step:,} (best: {state.best_step:,}) |
| {task.counts} seen | {state.tokens:,} |
| training FLOPs, matrix products counted | {state.flops:.3g} |
| wall time, evaluations included | {duration(state.seconds)} |
| machine | {plan.machine}, {plan.processes} x {plan.threads} threads, torch {plan.torch} |

On the validation data, at the best step:

| metric | value |
|---|---|
{scores}

The whole recipe:

```yaml
{recipes.dump(recipe)}```
"""


def follow(out: Path, models: Models, start: Path | None, world: World) -> None:
    """As a companion of the process that leads: the same model, a share of every batch, not a word."""
    keep_memory()
    world.told(0)  # the folder is prepared
    if not (out / "recipe.yaml").exists():
        raise UserError(f"{out} is empty on this machine; `out` must be a folder that all machines share")
    run = Run(read_recipe(out / "recipe.yaml"), out, models, start)
    if other := _changed_inputs(out, run.inputs()):
        raise UserError(f"{other[0]}: differs from the file of the leading process; give all the same data")
    keep_step(run.trainer(world=world), out, world)


def _tensorboard(out: Path) -> Report:
    """Evaluations as TensorBoard reads them, beside metrics.jsonl, which has the same."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError("`tensorboard` needs a package more; pip install 'regard[tensorboard]'") from error

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


def _same_run(out: Path, recipe: BaseRecipe, inputs: Sequence[Path], goes_on: bool) -> None:
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
            "choose another `out`, undo the change, or go on with it by `goes_on`"
        )
    if changed and begun:
        if fixed := [line for line in changed if line.startswith(("model.", "data.tokenizer"))]:
            raise UserError("a run that goes on keeps these:\n  " + "\n  ".join(fixed) + "\nuse `start` instead")
        say(f"going on with changes:\n  {listed}")
        (out / "plan.json").unlink(missing_ok=True)
    if changed and (files or other_data or not begun):
        shutil.rmtree(out / "store", ignore_errors=True)
        # Where nothing was trained yet, the tokenizers belong to the old recipe too.
        for leftover in [
            *out.glob("valid.*"),
            *([] if begun else [*out.glob("tokenizer*.json"), *out.glob("input.json")]),
        ]:
            leftover.unlink(missing_ok=True)
    if changed or not (stored.exists() and (out / INPUTS).exists()):
        write(stored, recipes.dump(recipe).encode())
        write(out / INPUTS, sealed({"files": [[str(path), input_digest(path)] for path in inputs]}))


def _changed_inputs(out: Path, inputs: Sequence[Path]) -> list[Path]:
    """Files that are not as they were when the run began."""
    if not (out / INPUTS).exists():
        return []
    try:
        before = [total for _, total in unsealed(json.loads((out / INPUTS).read_bytes()))["files"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{out / INPUTS}: is damaged ({error}); remove it if the data are as they were") from error
    now = [input_digest(path) for path in inputs]
    return [path for path, one, other in zip_longest(inputs, before, now) if one != other and path is not None]
