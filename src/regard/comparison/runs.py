"""The runs of a comparison: trained one after another, each in a process of its own, judged, and kept."""

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from regard.comparison.table import Drawn, Run, Table
from regard.errors import StoppedError, UserError
from regard.files import sealed, unsealed, write
from regard.progress import say
from regard.recipe import differences
from regard.tasks.config import BaseRecipe
from regard.tasks.folder import load_folder
from regard.tasks.judging import Judge, Judged
from regard.tasks.registry import TASKS, read_recipe
from regard.training.asked import Asked
from regard.training.checkpoint import log_entries, newest
from regard.training.loop import stop_signals
from regard.training.plan import Plan

JUDGED = "judged.json"
TIMED, ROUNDS = 200, 3  # items at most by which a model is timed, and how often
STOPPED = "stopped; everything is kept, and the same command goes on"


@dataclass(frozen=True)
class Comparison:
    """Runs of recipes by name, in folders OUT/name/seed."""

    paths: Mapping[str, Path]
    judge: Judge
    num_seeds: int
    out: Path
    options: Mapping[str, Any]  # of all trainings
    command: Sequence[str]
    """What trains one, told its options as JSON, in a process of its own, which also says what is wrong."""

    def run(self) -> Table:
        try:
            return self._run()
        except KeyboardInterrupt:
            raise StoppedError(STOPPED, 128 + signal.SIGINT) from None

    def _run(self) -> Table:
        """Finish what is not finished, all recipes of a seed before those of the next; the table grows with them."""
        every = [(name, seed) for seed in range(self.num_seeds) for name in self.paths]
        runs: dict[str, dict[int, Run]] = {name: {} for name in self.paths}
        drawn: Drawn = {}
        for name, seed in every:
            if self._is_of(name, seed) and (run := stored_run(self._folder(name, seed), self.judge)) is not None:
                runs[name][seed] = run

        def table(speeds: Mapping[str, float]) -> Table:
            ordered = {name: dict(sorted(each.items())) for name, each in runs.items()}
            made = Table.of(self.judge, self.num_seeds, ordered, speeds, drawn)
            made.save(self.out)
            return made

        for number, (name, seed) in enumerate(every, 1):
            if seed not in runs[name]:
                say(f"{name}, seed {seed}: run {number} of {len(every)}")
                self._train(name, seed)
                runs[name][seed] = judge_run(self._folder(name, seed), self.judge)
                table({})
        return table(self._speeds({name: each[0] for name, each in runs.items()}))

    def _folder(self, name: str, seed: int) -> Path:
        return self.out / name / str(seed)

    def _seeded(self, name: str, seed: int) -> BaseRecipe:
        recipe: BaseRecipe = self.judge.recipes[name]
        return replace(recipe, train=replace(recipe.train, seed=recipe.train.seed + seed))

    def _is_of(self, name: str, seed: int) -> bool:
        """Whether the folder of a run holds one of the very recipe."""
        stored = self._folder(name, seed) / "recipe.yaml"
        return stored.exists() and not differences(read_recipe(stored), self._seeded(name, seed))

    def _train(self, name: str, seed: int) -> None:
        folder = self._folder(name, seed)
        if (folder / "README.md").exists() and self._is_of(name, seed):
            return  # trained, and to be judged anew
        settings = [*self.options["settings"], f"train.seed={self._seeded(name, seed).train.seed}"]
        own = {"recipe": str(self.paths[name]), "out": str(folder), "settings": settings}
        code, asked = _call([*self.command, json.dumps({**self.options, **own})])
        if asked or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            raise StoppedError(STOPPED, asked + 128 if asked else code)
        if code:
            failed = f"{name}, seed {seed}: training failed; what is finished is kept, the same command goes on"
            raise StoppedError(failed, code)

    def _speeds(self, runs: Mapping[str, Run]) -> dict[str, float]:
        """Of the models of the first seed, measured once for the same runs."""
        path, asked = self.out / "speed.json", next(iter(runs.values())).judged.asked
        if not asked:
            return {}
        by = [self.judge.name, self.num_seeds, self.judge.threads, *runs]
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = unsealed(json.loads(path.read_bytes()))
            if stored["by"] == by:
                return {name: float(stored["speeds"][name]) for name in runs}
        say("timing the models")
        measured = speeds({name: self._folder(name, 0) for name in runs}, self.judge, asked)
        write(path, sealed({"by": by, "speeds": measured}))
        return measured


def comparable(files: Sequence[Path], options: Mapping[str, Any], **asked: Any) -> tuple[dict[str, Path], Judge]:
    """The files of recipes by their names, and who judges their models as `asked`, if they can be compared."""
    common = {name: options[name] for name in ("minutes", "settings")}
    paths: dict[str, Path] = {}
    for path in files:
        if (twin := paths.get(path.stem)) is not None:
            raise UserError(f"{twin} and {path}: both are called {path.stem}; give each once, by its own name")
        paths[path.stem] = path
    recipes = {name: Asked(path=path, **common).recipe()[0] for name, path in paths.items()}
    judge, (first, recipe), *others = judge_of(recipes, **asked), *recipes.items()
    same = {"task", "train.metric", *(f"data.{key}" for key in judge.same)}
    for name, other in others:
        changed = [line for line in differences(recipe, other) if ".".join(line.split(":")[0].split(".")[:2]) in same]
        if changed:
            both, listed = f"{paths[first]} and {paths[name]}", "\n  ".join(changed)
            raise UserError(f"{both} cannot be compared:\n  {listed}\nmake these equal there, or by `settings`")
    judge.check()
    return paths, judge


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


def _call(command: Sequence[str]) -> tuple[int, int]:
    """The exit code of a program, and the signal to stop that came meanwhile, or 0.

    A Ctrl-C reaches it too, as it is in the same group of processes; SIGTERM is passed on. It saves and ends.
    """
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(signum: int) -> None:
        for process in started if signum == signal.SIGTERM else ():
            process.terminate()

    with stop_signals(pass_on) as asked:
        started.append(subprocess.Popen(command))
        code = started[0].wait()
    return code if code >= 0 else 128 - code, max(asked, default=0)
