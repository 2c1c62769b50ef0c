"""The letters of every shape in Regard, and the one way to hold sentences of different lengths.

B batch, T query steps, S key steps, H heads, G key/value heads, D head width, C model width, V vocabulary,
N rows while decoding (sentences times hypotheses). Batch is axis 0 everywhere; `(B, T, C)` between modules,
`(B, H, T, D)` inside attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Padded:
    """Token ids of several sentences, filled up on the right: tokens (B, T), lengths (B,)."""

    tokens: Tensor
    lengths: Tensor

    @staticmethod
    def of(sentences: Sequence[Sequence[int]], padding: int = 0) -> Padded:
        """Sentences as lists of ids; each must hold at least one."""
        import torch  # here, so that naming the type costs no torch

        if not sentences:
            raise UserError("a batch of no sentences; give at least one")
        lengths = [len(sentence) for sentence in sentences]
        if 0 in lengths:
            raise UserError(f"sentence {lengths.index(0) + 1} of {len(lengths)} is empty; give it an end mark at least")
        longest = max(lengths)
        rows = [[*sentence, *[padding] * (longest - len(sentence))] for sentence in sentences]
        return Padded(torch.tensor(rows), torch.tensor(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, index: Tensor) -> Padded:
        """The rows named by `index`, in that order."""
        return Padded(self.tokens[index], self.lengths[index])

    def lists(self) -> list[list[int]]:
        """The sentences again, without their padding."""
        pairs = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in pairs]
