"""Runnable: what every model that is ready to use has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.axes import Axis, Text
from regard.data.config import InputConfig
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Search
from regard.engine.engine import Engine, EngineName, Rows, Sources, choose
from regard.errors import UserError
from regard.look.look import Look
from regard.shapes import Padded, Row, by_length
from regard.tasks.folder import Loaded
from regard.tasks.options import Texts, made

if TYPE_CHECKING:
    from regard.attention.site import Site
    from regard.engine.explain import Explanation


Tick = Callable[[int], None]  # is told how many are done


def ignore(done: int) -> None:
    """Nobody wants to know."""


TOGETHER = 4096  # tokens of a batch
MOVES = 128  # words said for which gradients are taken, a pass each
GRADIENT, TREE = 1 << 36, 1 << 34  # multiplications for gradients, and for a search once more: about 2 seconds each


@dataclass(frozen=True)
class Prediction:
    """What a model says to a text: as a line, and as a JSON object."""

    line: str
    data: dict[str, Any]


Predictions = list[Prediction]


@dataclass(frozen=True)
class Evaluation:
    """How good a model is: as JSON has it, and as lines of text."""

    data: dict[str, Any]
    lines: list[str]

    @staticmethod
    def of(data: dict[str, Any]) -> "Evaluation":
        kinds = {name: "10," if isinstance(x, int) else "10.4f" for name, x in data.items()}
        return Evaluation(data, [f"{name:16} {x:{kinds[name]}}" for name, x in data.items()])


class Runnable:
    """A model, its tokenizers and its search."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        tag: str | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
        engine: EngineName = "auto",
        threads: int | None = None,
        files: bool = True,
    ) -> None:
        """`tag`: the direction of a translator of several. Without `files`, no item names a file of this machine."""
        if tag is not None and loaded.spec.form != "source":
            raise UserError("a tag is for translators of several directions; drop it")
        if (words := loaded.tokenizers) is not None and not files:
            loaded = replace(loaded, tokenizers=replace(words, source=words.source.closed()))
        self.tag, self.loaded, self.max_length, self.name = tag, loaded, loaded.max_length, loaded.name
        self.search, self.batch_size = search or loaded.search, batch_size
        self.start, self.end = loaded.config.start, loaded.config.end
        self._engine: dict[str, Any] = {"name": engine, "threads": threads, "batch_size": batch_size}

    @cached_property
    def model(self) -> Any:
        """As PyTorch has it."""
        if self._engine["threads"] is not None:
            import torch

            torch.set_num_threads(self._engine["threads"])
        return self.loaded.model

    @cached_property
    def engine(self) -> Engine:
        loaded = self.loaded
        return choose(config=loaded.config, model=lambda: self.model, native=loaded.native, **self._engine)

    @property
    def tokenizers(self) -> Tokenizers:
        return self.loaded.words

    @property
    def tokenizer(self) -> Tokenizer:
        """Of what it says."""
        return self.tokenizers.target

    def batches(self, rows: Rows, tick: Tick = ignore) -> Iterator[tuple[list[int], Padded]]:
        """Rows of like length together, with their numbers; the longest first."""
        done = 0
        for members in by_length(rows, lambda longest: self.batch_size or max(1, TOGETHER // max(1, longest))):
            yield members, Padded.of([rows[i] for i in members])
            tick(done := done + len(members))

    def __repr__(self) -> str:
        config, spec = self.loaded.config, self.loaded.spec
        return f"<regard: a {config.kind} for {spec.purpose}, {self.loaded.folder}>"

    def options(self, given: Mapping[str, Any]) -> Any:
        """Of a call of this model."""
        return made(self.loaded.spec.run, given)

    def predict(self, texts: Texts, options: Any, *, first: int = 1, tick: Tick = ignore) -> Predictions:
        """For each text what the model says, as `regard run` prints it; blank to a blank one. The first is line `first`
        in warnings; `tick` is given how many are done."""
        raise NotImplementedError  # abstract

    def about(self, options: Any) -> str:
        """What a user should know before."""
        return ""

    def stream(self, options: Any, put: Callable[[str], None]) -> None:
        """Write one text as it grows, of options that are `single`."""
        raise NotImplementedError  # abstract

    def evaluate(self, **options: Any) -> Evaluation:
        """How good the model is on data that it has not seen, by the options of `regard evaluate`."""
        return self.evaluated(made(self.loaded.spec.evaluate, options))

    def evaluated(self, options: Any) -> Evaluation:
        raise NotImplementedError  # abstract

    def served(self) -> dict[str, Any]:
        """What a service tells of the model, besides its task; what is slow the first time has been done then."""
        self.model.eval()
        return {}

    def attend(self, text: str, target: str | None = None, *, shown: int | None = None) -> Look:
        """What the model attended to, of its own output or another; maps of more weights than `shown` are refused.
        Here: of a model without an output."""
        from regard.engine.explain import explain_source

        if target is not None:
            raise UserError("this model has no output of its own; attend to a text without target")
        read, source = self.reading(text)
        return self.look(explain_source(self.model, read, source, shown))

    def reading(self, text: str) -> "tuple[Callable[[Sources, Site], Any], Row]":
        """The model's pass over sources, and the source that a text is."""
        raise NotImplementedError  # abstract

    @property
    def front(self) -> InputConfig | None:
        """What it reads, if not text."""
        return None if self.loaded.tokenizers is None else self.tokenizers.source.front

    def lines(self, path: Path) -> Iterator[str]:
        """The items of a file, as `regard run` takes them."""
        return self.tokenizers.source.lines(path)

    def axis(self, source: Any) -> Axis:
        """How views label what was read."""
        return self.tokenizers.source.axis(source)

    def look(self, told: "Explanation", *, searched: bool = False) -> Look:
        """With the beam that found it, if it was found by one, and with gradients, where they take not long."""
        from regard.engine.explain import saliency
        from regard.look.tree import climb

        target, search = self.tokenizers.target, self.search
        output = taken = Text([], [])
        if told.target:
            output = target.axis(told.target)
            taken = Text([*target.pieces([told.first]), *output.labels[:-1]], [-1, *output.groups[:-1]])
        axes = {"source": self.axis(told.source), "target": output, "taken": taken}
        size, steps = sum(p.numel() for p in self.model.parameters()), len(told.target)
        beam = replace(search, num_best=search.size) if isinstance(search, Beam) and searched else None
        beam = beam if beam and steps * beam.size * size <= TREE else None
        short = 0 < steps <= MOVES and steps * (len(told.source) + steps) * size <= GRADIENT
        gradients = partial(saliency, self.model, told) if short else lambda: None
        shown = Look(told, axes, lambda ids: target.pieces(ids), saliency=gradients)
        return replace(shown, tree=lambda: climb(self.model, told.source, beam)) if beam else shown


def ids_of(given: Any, vocabulary: int) -> tuple[Padded, bool]:
    """Ids as a caller gives them, one row or several, lists or tensors; and whether it was one."""
    rows = given.tolist() if hasattr(given, "tolist") else list(given)
    alone = bool(rows) and not isinstance(rows[0], list | tuple)
    rows = [rows] if alone else [list(row) for row in rows]
    flat = [i for row in rows for i in row]
    if not all(rows) or not rows or not all(isinstance(i, int) and 0 <= i < vocabulary for i in flat):
        raise UserError(f"ids have to be rows of numbers from 0 to {vocabulary - 1}, and none empty")
    return Padded.of(rows), alone
