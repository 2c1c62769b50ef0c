"""How examples become rows of ids, and rows become batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example
from regard.data.input import Input
from regard.data.tokenizer import Tokenizer, text_of
from regard.errors import UserError
from regard.models.config import ReaderConfig
from regard.shapes import Padded
from regard.shapes import Row as Ids
from regard.tasks.labelled.question import question_of

MARKS = 3  # that a decoder learns while it is tuned: before a text, between two, and where its answer is told


@dataclass(frozen=True, eq=False)
class Row:
    """Ids that are read at once, and what is wanted of them."""

    ids: Ids  # of what is no text, vectors (T, F)
    second: int  # where its second part begins
    item: int  # the example that it is of
    wanted: Any = None
    spots: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of words, where each begins among the ids (W,); of a document, from where to where in it each of the ids from
    `second` on comes, in characters (D, 2)."""


Unit = list[Row]  # rows that are answered together: choices of an example, both orders of a pair, or one row alone


class Layout:
    """[start] a [end] b [end] for encoders [Devlin+ 2019, figure 4]; [start] a [between] b [extract] for decoders, by
    marks that follow their vocabulary [Radford+ 2018, figure 1]."""

    def __init__(self, own: Input, config: ReaderConfig, max_length: int) -> None:
        held = getattr(getattr(config.trunk, "position", None), "max_length", None)
        if held is not None and held < max_length:
            raise UserError(f"data.max_length {max_length} is longer than the {held} positions of this model; lower it")
        self.input, self.config, self.max_length = own, config, max_length
        self.question = question_of(config.question)
        words, trunk = self.input.vocabulary, config.trunk
        marked = (trunk.start, trunk.end, trunk.end) if trunk.both_ways else (words, words + 1, words + 2)
        self.first, self.between, self.last = marked
        self.numbers = {label: i for i, label in enumerate(config.labels)}
        self.cut = 0
        """Examples of which not all is read."""

    @property
    def tokenizer(self) -> Tokenizer:
        return text_of(self.input)

    def units(self, examples: Sequence[Example]) -> Iterator[Unit]:
        """In order."""
        for item, example in enumerate(examples):
            before = self.cut
            yield from self.question.units(self, item, example)
            self.cut = min(self.cut, before + 1)

    def frame(self, *parts: Sequence[int]) -> tuple[list[int], int]:
        """The ids of one text or two, with marks, the longer one cut if there is no room; and where the second is."""
        room = self.max_length - 1 - len(parts)
        a, b = parts if len(parts) == 2 else (parts[0], ())
        self.cut += len(a) + len(b) > room
        kept = min(len(b), max(room // 2, room - len(a)))
        a, b = a[: room - kept], b[:kept]
        between = [self.between, *b] if len(parts) == 2 else []
        return [self.first, *a, *between, self.last], len(a) + 2

    def row(self, item: int, wanted: Any, *parts: Sequence[int]) -> Row:
        return Row(*self.frame(*parts), item, wanted)

    def texts(self, item: int, example: Example, wanted: Any) -> Unit:
        """A text, or two, perhaps in both orders; or what is no text."""
        if self.input.front is not None:
            (values,) = self.input.read(example.texts)
            self.cut += len(values) > self.max_length
            return [Row(values[: self.max_length], self.max_length, item, wanted)]
        parts = self.tokenizer.encode(example.texts)
        orders = [parts, parts[::-1]] if self.config.symmetric and len(parts) == 2 else [parts]
        return [self.row(item, wanted, *order) for order in orders]


@dataclass(frozen=True, eq=False)
class Batch:
    """Units that are read at once."""

    rows: list[Row]
    items: Padded  # of which segments are 1 in second parts, 0 elsewhere
    groups: Tensor  # the unit of each row (B,), counted from 0
    within: Tensor  # its place in that unit (B,)

    @staticmethod
    def of(units: Sequence[Unit]) -> "Batch":
        rows = [row for unit in units for row in unit]
        items = Padded.of([row.ids for row in rows])
        second = torch.tensor([row.second for row in rows])
        segments = (torch.arange(items.values.shape[1])[None] >= second[:, None]).long()
        groups = torch.tensor([i for i, unit in enumerate(units) for _ in unit])
        within = torch.tensor([i for unit in units for i in range(len(unit))])
        return Batch(rows, replace(items, segments=segments), groups, within)

    @property
    def document(self) -> Tensor:
        """Whether a token is of the document (B, T)."""
        first = torch.tensor([row.second for row in self.rows])[:, None]
        place, sizes = torch.arange(self.items.values.shape[1])[None], [len(row.spots) for row in self.rows]
        return (place >= first) & (place < first + torch.tensor(sizes)[:, None])

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """The row of each word, and where in it the word begins."""
        rows = np.repeat(np.arange(len(self.rows)), [len(row.spots) for row in self.rows])
        return torch.from_numpy(rows), torch.from_numpy(np.concatenate([row.spots for row in self.rows]))
