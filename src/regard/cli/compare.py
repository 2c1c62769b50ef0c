"""`regard compare`: several recipes on the same data, in one table and one picture."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from regard.errors import UserError
from regard.files import sealed, unsealed, write
from regard.progress import say

if TYPE_CHECKING:  # else at every start of the program
    from regard.cli.judge import Given, Run
    from regard.cli.table import Table
    from regard.train.config import AnyRecipe

CHILD = "from regard.cli.compare import die_together; die_together(); from regard.cli.main import main; main()"
PR_SET_PDEATHSIG = 1
DEFAULT = Path("runs/compare")


def compare(
    recipes: Annotated[list[Path], typer.Argument(help="Recipes (YAML) for the same data.", show_default=False)],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each recipe, each of its own seed.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the runs, the table and the picture.")] = DEFAULT,
    minutes: Annotated[float | None, typer.Option(help="Time budget of each run. Default: the recipe's.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Override in all recipes, such as train.lr=1e-3.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Sentences to judge by. Default: validation data.")] = None,
    target: Annotated[Path | None, typer.Option(help="Their references.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Or a corpus such as multi30k-tok/en-de/test, or a file of pairs or examples.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads. Default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Train several recipes on the same data; one table, one picture.

    Quality with its interval, parameters, FLOPs, time, speed. The same command again goes on where it stopped.
    """
    from regard.cli.judge import JUDGES, Given, metric_for

    named = _named(recipes)
    read = _read(named, minutes, setting or [])
    first = next(iter(read.values()))
    metric = metric_for(list(read.values()))
    given = Given(metric=metric, source=source, target=target, data=data, threads=threads)
    JUDGES[first.task].check(first, given)
    options = [f"--set={each}" for each in setting or []]
    options += [
        f"--{name}={value}" for name, value in (("minutes", minutes), ("threads", threads)) if value is not None
    ]
    try:
        table = Comparison(named, read, given, seeds, out, options).run()
    except KeyboardInterrupt:
        _stop(signal.SIGINT)
    print(table.json() if as_json else table.markdown().rstrip())


@dataclass(frozen=True)
class Comparison:
    """Runs of recipes by name, in folders OUT/name/seed."""

    paths: Mapping[str, Path]
    recipes: Mapping[str, AnyRecipe]
    given: Given
    num_seeds: int
    out: Path
    options: Sequence[str]
    """For `regard train`."""

    def run(self) -> Table:
        """Finish what is not finished, all recipes of a seed before those of the next; the table grows with them."""
        from regard.cli.judge import judge_run
        from regard.cli.table import Drawn, Table

        wanted = [(name, seed) for seed in range(self.num_seeds) for name in self.recipes]
        runs: dict[str, dict[int, Run]] = {name: {} for name in self.recipes}
        drawn: Drawn = {}
        for name, seed in wanted:
            if (run := self._finished(name, seed)) is not None:
                runs[name][seed] = run

        def table(speeds: Mapping[str, float]) -> Table:
            ordered = {name: dict(sorted(each.items())) for name, each in runs.items()}
            made = Table.of(self.recipes, self.given, self.num_seeds, ordered, speeds, drawn)
            made.save(self.out)
            return made

        for number, (name, seed) in enumerate(wanted, 1):
            if seed not in runs[name]:
                say(f"{name}, seed {seed}: run {number} of {len(wanted)}")
                self._train(name, seed)
                runs[name][seed] = judge_run(self.out / name / str(seed), self._seeded(name, seed), self.given)
                table({})
        return table(self._speeds({name: each[0] for name, each in runs.items()}))

    def _seeded(self, name: str, seed: int) -> AnyRecipe:
        recipe = self.recipes[name]
        return replace(recipe, train=replace(recipe.train, seed=recipe.train.seed + seed))  # type: ignore[arg-type]

    def _is_of(self, name: str, seed: int) -> bool:
        """Whether the folder of a run holds one of the very recipe."""
        from regard.recipe import differences
        from regard.train.config import read_recipe

        stored = self.out / name / str(seed) / "recipe.yaml"
        return stored.exists() and not differences(read_recipe(stored), self._seeded(name, seed))

    def _finished(self, name: str, seed: int) -> Run | None:
        from regard.cli.judge import stored_run

        return stored_run(self.out / name / str(seed), self.given) if self._is_of(name, seed) else None

    def _train(self, name: str, seed: int) -> None:
        """By a process of its own, which also tells what is wrong; it ends when this one does."""
        folder = self.out / name / str(seed)
        if (folder / "README.md").exists() and self._is_of(name, seed):
            return  # trained, and to be judged anew
        settings = [*self.options, f"--set=train.seed={self._seeded(name, seed).train.seed}", f"--out={folder}"]
        code, asked = _call([sys.executable, "-c", CHILD, "train", str(self.paths[name]), *settings])
        if asked or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            _stop(asked or code - 128)
        if code:
            say(f"regard: {name}, seed {seed}: training failed; what is finished is kept, the same command goes on")
            sys.exit(code)

    def _speeds(self, runs: Mapping[str, Run]) -> dict[str, float]:
        """Of the models of the first seed, measured once for the same runs."""
        from regard.cli.judge import JUDGES, speeds

        path, task = self.out / "speed.json", next(iter(self.recipes.values())).task
        if JUDGES[task].answer is None:
            return {}
        by = [self.given.name, self.num_seeds, self.given.threads, *runs]
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = unsealed(json.loads(path.read_bytes()))
            if stored["by"] == by:
                return {name: float(stored["speeds"][name]) for name in runs}
        say("timing the models")
        folders = {name: self.out / name / "0" for name in runs}
        found = speeds(folders, task, next(iter(runs.values())).judged.asked, self.given)
        write(path, sealed({"by": by, "speeds": found}))
        return found


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Recipes by the names of their files."""
    named: dict[str, Path] = {}
    for path in paths:
        if path.stem in named:
            raise UserError(
                f"{named[path.stem]} and {path}: both are called {path.stem}; give each once, by its own name"
            )
        named[path.stem] = path
    return named


def _read(paths: Mapping[str, Path], minutes: float | None, settings: Sequence[str]) -> dict[str, AnyRecipe]:
    """What the recipes say, if they can be compared."""
    from regard.cli.judge import JUDGES
    from regard.cli.starter import Asked
    from regard.recipe import differences

    read = {
        name: Asked(path, None, None, None, None, None, minutes, settings).recipe()[0] for name, path in paths.items()
    }
    (first, recipe), *others = read.items()
    same = {"task", "train.metric", *(f"data.{key}" for key in JUDGES[recipe.task].same)}
    for name, other in others:
        changed = [line for line in differences(recipe, other) if ".".join(line.split(":")[0].split(".")[:2]) in same]
        if changed:
            told = "\n  ".join(changed)
            raise UserError(
                f"{paths[first]} and {paths[name]} cannot be compared:\n  {told}\nmake these equal there, or by --set"
            )
    return read


def _call(command: Sequence[str]) -> tuple[int, int]:
    """The exit code of a program, and the signal to stop that came meanwhile, or 0.

    A Ctrl-C reaches it too, as it is in the same group of processes; SIGTERM is passed on. It saves and ends.
    """
    asked: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def note(signum: int, frame: FrameType | None) -> None:
        asked.append(signum)
        for process in started if signum == signal.SIGTERM else ():
            process.terminate()

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        started.append(subprocess.Popen(command))
        code = started[0].wait()
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
    return code if code >= 0 else 128 - code, max(asked, default=0)


def _stop(signum: int) -> NoReturn:
    say("regard: stopped; everything is kept, and the same command goes on")
    sys.exit(128 + signum)


def die_together() -> None:
    """Have this process killed when the one that started it has died, where the system can do that (Linux)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
