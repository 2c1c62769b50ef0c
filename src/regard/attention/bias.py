"""Bias: what is added to scores, asked for a block of queries and keys at a time, so that none is held whole."""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

ALL = slice(None)


class Bias:
    """Of queries and keys; `brings_values` where what a query brings back depends on the pair too."""

    brings_values = False

    def of(self, rows: slice) -> Self:
        """The same for some of the queries."""
        raise NotImplementedError  # abstract

    def scores(self, columns: slice = ALL) -> Tensor:
        """What is added to the scores of some keys, broadcastable to (B, H, T, S)."""
        raise NotImplementedError  # abstract

    def values(self, weights: Tensor, columns: slice = ALL) -> Tensor:
        """What the weights of some keys (B, H, T, S) bring back besides values (B, H, T, E)."""
        raise NotImplementedError  # abstract


@dataclass(frozen=True, eq=False)
class TableBias(Bias):
    """Numbers for all pairs, (1|B, 1|H, 1|T, 1|S)."""

    table: Tensor

    def of(self, rows: slice) -> Self:
        return self if self.table.shape[2] == 1 else replace(self, table=self.table[:, :, rows])

    def scores(self, columns: slice = ALL) -> Tensor:
        return self.table if self.table.shape[3] == 1 else self.table[..., columns]
