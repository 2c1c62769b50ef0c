"""The letters of every shape in Regard, and the one way to hold sequences of different lengths.

B batch, T query steps, S key steps, H heads, G key/value heads, D head width, C model width, V vocabulary,
N rows while decoding (sentences times hypotheses). Batch is axis 0 everywhere; `(B, T, C)` between modules,
`(B, H, T, D)` inside attention.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


Row = Sequence[int] | NDArray[Any]  # what a model reads of one item: token ids (T,), or vectors (T, F)


@dataclass(frozen=True, eq=False)
class Padded:
    """Sequences of token ids (B, T) or of vectors (B, T, F), filled up on the right, and their lengths (B,)."""

    values: "Tensor"
    lengths: "Tensor"
    segments: "Tensor | None" = None
    """Which part of its text each token is in (B, T), where that is told: 0 in the first, 1 in the second."""

    @property
    def tokens(self) -> "Tensor":
        """The values of a batch of text."""
        return self.values

    @staticmethod
    def of(rows: Sequence[Row], padding: int = 0) -> "Padded":
        """Rows of one kind; each must hold at least one step."""
        from torch import from_numpy  # here, so that naming the type costs no torch

        if not rows:
            raise UserError("a batch of no sentences; give at least one")
        lengths = np.array([len(row) for row in rows])
        if not lengths.all():
            place = lengths.tolist().index(0) + 1
            raise UserError(f"sentence {place} of {len(lengths)} is empty; give it an end mark at least")
        flat = np.concatenate(rows)
        kind = np.float32 if flat.dtype.kind == "f" else np.int64
        values = np.full((len(lengths), lengths.max(), *flat.shape[1:]), padding, kind)
        values[np.arange(lengths.max()) < lengths[:, None]] = flat
        return Padded(from_numpy(values), from_numpy(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, index: "Tensor") -> "Padded":
        """The rows named by `index`, in that order."""
        return Padded(self.values[index], self.lengths[index])

    def lists(self) -> list[list[int]]:
        """The sentences again, without their padding."""
        pairs = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in pairs]


def by_length(rows: Sequence[Sized], size: Callable[[int], int]) -> Iterator[list[int]]:
    """The numbers of rows, the longest first, in batches of so many; `size` is told how long the longest is."""
    order, done = sorted(range(len(rows)), key=lambda i: -len(rows[i])), 0
    while done < len(order):
        members = order[done : done + size(len(rows[order[done]]))]
        yield members
        done += len(members)
