"""The letters of every shape in Regard, and the one way to hold sentences of different lengths.

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


@dataclass(frozen=True, eq=False)
class Padded:
    """Token ids of several sentences, filled up on the right: tokens (B, T), lengths (B,)."""

    tokens: "Tensor"
    lengths: "Tensor"

    @staticmethod
    def of(sentences: Sequence[Sequence[int] | NDArray[Any]], padding: int = 0) -> "Padded":
        """Sentences as lists of ids; each must hold at least one."""
        from torch import from_numpy  # here, so that naming the type costs no torch

        if not sentences:
            raise UserError("a batch of no sentences; give at least one")
        lengths = np.array([len(sentence) for sentence in sentences])
        if not lengths.all():
            place = lengths.tolist().index(0) + 1
            raise UserError(f"sentence {place} of {len(lengths)} is empty; give it an end mark at least")
        tokens = np.full((len(lengths), lengths.max()), padding, np.int64)
        tokens[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(sentences)
        return Padded(from_numpy(tokens), from_numpy(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, index: "Tensor") -> "Padded":
        """The rows named by `index`, in that order."""
        return Padded(self.tokens[index], self.lengths[index])

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
