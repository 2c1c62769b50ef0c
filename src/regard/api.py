"""What Python users call: load, train, evaluate, compare, check. The command line and the service stand on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    from regard.comparison.table import Table
    from regard.engine.engine import EngineName
    from regard.tasks.report import Report
    from regard.tasks.runnable import Evaluation, Runnable

Place = str | Path


class Files(TypedDict, total=False):
    """What is trained on without a recipe: a text and its translation, line by line, or running text."""

    source: Place | None
    target: Place | None
    valid_source: Place | None
    valid_target: Place | None
    text: Place | None


def load(folder: Place, **options: Any) -> "Runnable":
    """A model, ready to be called: `regard.load("runs/en-de")("I ate an apple")`.

    A folder that Regard wrote, or one in Hugging Face's layout.
    """
    from regard.exchange.folders import load_any  # here, so that `import regard` costs no torch

    loaded = load_any(Path(folder))
    return loaded.spec.runtime(loaded, **options)


def train(
    recipe: Place | None = None,
    *,
    out: Place | None = None,
    minutes: float | None = None,
    settings: Sequence[str] = (),
    start: Place | None = None,
    new_words: Sequence[str] = (),
    goes_on: bool = False,
    tensorboard: bool = False,
    processes: int | None = None,
    threads: int | None = None,
    **files: Unpack[Files],
) -> "Runnable":
    """Train a model from a recipe, two files of pairs, or a text: `regard.train(source="a.en", target="a.de")`.

    The same call again goes on where it stopped.
    """
    from regard.exchange import folders
    from regard.process import COMMAND
    from regard.progress import say
    from regard.training.asked import Asked
    from regard.training.distributed import World
    from regard.training.launch import Cores
    from regard.training.run import Run, train

    asked = Asked.of(recipe, files, minutes, settings)
    chosen, reasons = asked.recipe()
    world, place = World.of_torchrun(), Path(out or asked.folder)
    for line in reasons if world.leads else ():
        say(line)
    chosen, begin = chosen.beginning_with(_path(start))
    train(
        Run(chosen, place, folders, begin), cores=Cores(processes, threads), goes_on=goes_on, tensorboard=tensorboard,
        world=world, new_words=new_words, companion=[*COMMAND, "rank", str(place), str(begin or "")],
    )  # fmt: skip
    return load(place, threads=threads)


def evaluate(
    folder: Place, *, engine: "EngineName" = "auto", threads: int | None = None, **options: Any
) -> "Evaluation":
    """How good a model is on data that it has not seen: `regard.evaluate("runs/a", source="b.en", target="b.de").data`.

    The options are those of `regard evaluate FOLDER --help`.
    """
    return load(folder, engine=engine, threads=threads).evaluate(**options)


def check(
    recipe: Place | None = None, *, minutes: float | None = None, settings: Sequence[str] = (), **files: Unpack[Files]
) -> "Report":
    """Every problem of the data, by file and line, and what training on them would take; as `train` takes them."""
    from regard.exchange import folders
    from regard.training.asked import Asked, check

    return check(Asked.of(recipe, files, minutes, settings), folders)


def compare(
    recipes: Sequence[Place],
    *,
    seeds: int = 3,
    out: Place = "runs/compare",
    minutes: float | None = None,
    settings: Sequence[str] = (),
    source: Place | None = None,
    target: Place | None = None,
    data: str | None = None,
    threads: int | None = None,
) -> "Table":
    """Train several recipes on the same data with several seeds: quality with intervals, costs and speed."""
    from regard.comparison.runs import Comparison, comparable
    from regard.process import COMMAND

    asked = {"source": _path(source), "target": _path(target), "data": data, "threads": threads}
    options = {"minutes": minutes, "threads": threads, "settings": settings}
    paths, judge = comparable([Path(recipe) for recipe in recipes], options, **asked)
    return Comparison(paths, judge, seeds, Path(out), options, [*COMMAND, "train"]).run()


def _path(place: Place | None) -> Path | None:
    return None if place is None else Path(place)
