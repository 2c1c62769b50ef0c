"""How good a trained model is, as `regard compare` asks each task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import UserError
from regard.metrics.resample import Score


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A score; and, where there are items, what each asked, what was said and what was wanted, as JSON has it."""

    metric: str
    higher: bool
    value: float
    signature: str | None = None
    asked: Sequence[Any] = ()
    said: Sequence[Any] = ()
    wanted: Sequence[Any] = ()


@dataclass(frozen=True, kw_only=True)
class Judge:
    """What the models of some recipes are judged by: files or a corpus; where neither is named, the validation data."""

    recipes: Mapping[str, Any]
    """By name; all of one task, which has its own kind of judge."""
    source: Path | None = None
    target: Path | None = None
    data: str | None = None
    threads: int | None = None
    same: tuple[str, ...] = ("train", "valid", "hold_out")
    """Settings of the data that have to be equal in all recipes."""
    items: ClassVar[str] = "items"
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Of metrics that are no percentage."""

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise UserError("one of `source` and `target` is missing; they belong together, line by line")
        if self.source is not None and self.data is not None:
            raise UserError("`data` and `source` are both given; judge by one of them")

    @property
    def recipe(self) -> Any:
        """Any one: where it matters here, all are equal."""
        return next(iter(self.recipes.values()))

    @property
    def metric(self) -> str:
        return str(self.recipe.train.metric)

    @property
    def chosen(self) -> str:
        """The data that were asked for, or nothing."""
        return self.data or (f"{self.source} and {self.target}" if self.source else "")

    @property
    def name(self) -> str:
        """Another one if anything is judged otherwise."""
        from regard.tasks.folder import stamp

        files = [Path(name) for name in (self.source, self.target, self.data) if name and Path(name).is_file()]
        return " ".join([self.metric, self.chosen or "validation data", *map(stamp, files)])

    def check(self) -> None:
        """Raise where there is nothing to judge by; asked before the first run."""
        raise NotImplementedError  # abstract

    def judge(self, model: Any) -> Judged:
        """A model that is ready to use."""
        raise NotImplementedError  # abstract

    def score(self, judged: Judged) -> Score:
        """Of items drawn again, where there are any."""
        raise NotImplementedError  # abstract

    def answer(self, model: Any, asked: Sequence[Any]) -> object:
        """What is timed, where there are items."""
        raise NotImplementedError  # abstract
