"""Bias: what is added to scores, asked for a block of queries and keys at a time, so that none is held whole."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

ALL = slice(None)


class Bias:
    """Of queries and keys; `brings_values` where what a query brings back depends on the pair too."""

    brings_values = False

    def scores(self, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """What is added to the scores of a block, broadcastable to (B, H, T, S)."""
        raise NotImplementedError  # abstract

    def values(self, weights: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """What the weights of a block (B, H, T, S) bring back besides values (B, H, T, E)."""
        raise NotImplementedError  # abstract


@dataclass(frozen=True, eq=False)
class TableBias(Bias):
    """Numbers for all pairs, (1|B, 1|H, 1|T, 1|S)."""

    table: Tensor

    def scores(self, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        part = self.table if self.table.shape[2] == 1 else self.table[:, :, rows]
        return part if self.table.shape[3] == 1 else part[..., columns]
