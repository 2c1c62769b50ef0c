"""How good a trained model is, as `regard compare` asks each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.metrics.resample import Score


@dataclass(frozen=True, kw_only=True)
class Given:
    """What runs are judged by: a metric, on files or a corpus; where neither is given, on the validation data."""

    metric: str
    source: Path | None = None
    target: Path | None = None
    data: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise UserError("one of --source and --target is missing; they belong together, line by line")
        if self.source is not None and self.data is not None:
            raise UserError("--data and --source are both given; judge by one of them")

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
    """What a task is judged by: which settings of the data have to be the same, and what its items are called."""

    metric: Callable[[Sequence[Any]], str]
    """From recipes to the name of what their models are judged by."""
    judge: Callable[[Any, Any, Given], Judged]
    """Of a model that is ready to use and its recipe."""
    check: Callable[[Any, Given], None]
    """Whether there is something to judge by, asked before the first run."""
    score: Callable[[Judged], Score] | None = None
    """Of items drawn again."""
    answer: Callable[[Any, Sequence[Any]], object] | None = None
    """What is timed: a model, given what was asked."""
    items: str = "items"
    same: tuple[str, ...] = ("train", "valid", "hold_out")
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of metrics that are no percentage."""
