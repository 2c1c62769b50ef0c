"""How examples become rows of ids: a text, a pair, each choice after its context, words, or windows of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.config import BertConfig, ElmoConfig, ReaderConfig, Trunk
from regard.shapes import Padded

MARKS = 3  # that a decoder learns while it is tuned: before a text, between two, and where its answer is told


@dataclass(frozen=True, eq=False)
class Row:
    """Ids that are read at once, and what is wanted of them."""

    ids: list[int]
    second: int
    """Where its second part begins."""
    item: int
    """The example that it is of."""
    wanted: Any = None
    spots: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of words, where each begins among the ids (W,); of a document, from where to where in it each of the ids from
    `second` on comes, in characters (D, 2)."""


Unit = list[Row]  # rows that are answered together: choices of an example, both orders of a pair, or one row alone


class Layout:
    """[start] a [end] b [end] for encoders [Devlin+ 2019, figure 4]; [start] a [between] b [extract] for decoders, by
    marks that follow their vocabulary [Radford+ 2018, figure 1]."""

    def __init__(self, tokenizer: Tokenizer, config: ReaderConfig, max_length: int) -> None:
        self.tokenizer, self.config, self.max_length = tokenizer, config, max_length
        words, trunk = tokenizer.vocabulary, config.trunk
        marked = (trunk.start, trunk.end, trunk.end) if is_encoder(trunk) else (words, words + 1, words + 2)
        self.first, self.between, self.last = marked
        self.numbers = {label: i for i, label in enumerate(config.labels)}
        self.cut = 0
        """Examples of which not all is read."""

    def units(self, examples: Sequence[Example]) -> Iterator[Unit]:
        """In order; rows of documents in which no answer stands come with None."""
        make = {"tagging": self._words, "spans": self._windows}
        for item, example in enumerate(examples):
            before = self.cut
            yield from make.get(self.config.question, self._texts)(item, example)
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

    def _texts(self, item: int, example: Example) -> Iterator[Unit]:
        """A text, or two, perhaps in both orders; or a context with each of its choices."""
        parts, answer = self.tokenizer.encode(example.texts), example.answer
        orders = [parts, parts[::-1]] if self.config.symmetric and len(parts) == 2 else [parts]
        if self.config.question == "choice":
            orders = [[parts[0], choice] for choice in parts[1:]]
        elif self.config.question == "regression" and answer is not None:
            answer = (answer - self.config.center) / self.config.spread
        elif answer is not None:
            answer = self.numbers.get(answer, -1)
        yield [Row(*self.frame(*order), item, answer) for order in orders]

    def _words(self, item: int, example: Example) -> Iterator[Unit]:
        """As many words as fit, a row after the other."""
        pieces = [ids[: self.max_length - 2] or [self.last] for ids in self.tokenizer.encode(example.texts)]
        tags = example.answer or [None] * len(pieces)
        first = 0
        while first < len(pieces):
            ends = np.cumsum([len(ids) for ids in pieces[first:]])
            count = int((ends <= self.max_length - 2).sum())
            ids, _ = self.frame([i for row in pieces[first : first + count] for i in row])
            wanted = [self.numbers.get(tag, -1) for tag in tags[first : first + count]]
            yield [Row(ids, len(ids), item, wanted, 1 + np.concatenate(([0], ends[: count - 1])))]
            first += count

    def _windows(self, item: int, example: Example) -> Iterator[Unit]:
        """The question before every window of the document, which overlap by half."""
        document, question = example.texts
        ((ids, spans),) = self.tokenizer.places([document])
        asked, most = self.tokenizer.encode([question])[0], self.max_length // 3
        self.cut += len(asked) > most
        asked = asked[:most]
        room = self.max_length - 3 - len(asked)
        places = np.array(spans, np.int64).reshape(-1, 2)
        step = max(1, room // 2)
        for at in range(0, max(1, len(ids) - room + step), step):
            row, second = self.frame(asked, ids[at : at + room])
            here = places[at : at + room]
            yield [Row(row, second, item, _stands(example, here, second), here)]


def _stands(example: Example, places: NDArray[np.int64], second: int) -> tuple[int, int] | None:
    """The first and last token of the first answer that is whole among these places."""
    for at, text in example.answer or ():
        start, text = at + len(text) - len(text.lstrip()), text.strip()
        inside = ((places[:, 1] > start) & (places[:, 0] < start + len(text))).nonzero()[0]
        if len(inside) and places[inside[0], 0] <= start and places[inside[-1], 1] >= start + len(text):
            return second + int(inside[0]), second + int(inside[-1])
    return None


@dataclass(frozen=True, eq=False)
class Batch:
    """Units that are read at once."""

    rows: list[Row]
    texts: Padded
    segments: Tensor
    """1 in second parts, 0 elsewhere (B, T)."""
    groups: Tensor
    """The unit of each row (B,), counted from 0."""
    within: Tensor
    """Its place in that unit (B,)."""

    @staticmethod
    def of(units: Sequence[Unit]) -> Batch:
        rows = [row for unit in units for row in unit]
        texts = Padded.of([row.ids for row in rows])
        second = torch.tensor([row.second for row in rows])
        segments = (torch.arange(texts.tokens.shape[1])[None] >= second[:, None]).long()
        groups = torch.tensor([i for i, unit in enumerate(units) for _ in unit])
        within = torch.tensor([i for unit in units for i in range(len(unit))])
        return Batch(rows, texts, segments, groups, within)

    @property
    def document(self) -> Tensor:
        """Whether a token is of the document (B, T)."""
        ends = torch.tensor([row.second + len(row.spots) for row in self.rows])
        return (self.segments == 1) & (torch.arange(self.segments.shape[1])[None] < ends[:, None])

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """The row of each word, and where in it the word begins."""
        rows = np.repeat(np.arange(len(self.rows)), [len(row.spots) for row in self.rows])
        return torch.from_numpy(rows), torch.from_numpy(np.concatenate([row.spots for row in self.rows]))


def is_encoder(trunk: Trunk) -> bool:
    return isinstance(trunk, BertConfig | ElmoConfig)


def check_room(config: ReaderConfig, max_length: int) -> None:
    """Raise where a trunk has no positions for so long texts."""
    position = getattr(config.trunk, "position", None)
    held = None if position is None else position.max_length
    if held is not None and held < max_length:
        raise UserError(f"data.max_length {max_length} is longer than the {held} positions of this model; lower it")
