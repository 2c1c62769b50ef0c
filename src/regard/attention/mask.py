"""Masks: who may attend to whom, as values that compose. True means: may attend.

A mask knows no tensor shapes until it is asked about a `Grid` of queries and keys; it then answers with a boolean
tensor that broadcasts to (B, H, T, S), or None where everything is allowed. Queries are the last T of S places
(bottom-right alignment), because with a cache the newest queries look at all keys so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError

Table = Tensor | Sequence[Any]  # nested lists will do where a mask is made


@dataclass(frozen=True, eq=False)
class Grid:
    """A block of queries x keys that a mask is asked about.

    `rows` (T,) and `columns` (S,) are indices into the whole, whose size is `shape`; `starts` (B,) is the index at
    which each sentence begins, where rows are filled up on the left.
    """

    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]
    starts: Tensor | None = None

    @staticmethod
    def whole(num_queries: int, num_keys: int, device: torch.device | None = None) -> Grid:
        rows, columns = (torch.arange(n, device=device) for n in (num_queries, num_keys))
        return Grid(rows, columns, (num_queries, num_keys))

    def block(self, rows: slice, columns: slice) -> Grid:
        return replace(self, rows=self.rows[rows], columns=self.columns[columns])

    @property
    def seats(self) -> Tensor:
        """The key index at which each query sits (T,)."""
        return self.rows + (self.shape[1] - self.shape[0])

    @property
    def queries(self) -> Tensor:
        """Positions of the queries, broadcastable to (B, 1, T, S)."""
        return self._positions(self.seats)[:, None, :, None]

    @property
    def keys(self) -> Tensor:
        """Positions of the keys, broadcastable to (B, 1, T, S)."""
        return self._positions(self.columns)[:, None, None, :]

    def _positions(self, index: Tensor) -> Tensor:
        return index[None] if self.starts is None else index[None] - self.starts[:, None]


@dataclass(frozen=True, eq=False)
class Mask:
    """A rule; without one everything may attend to everything, which is the neutral element of `&`."""

    rule: Callable[[Grid], Tensor | None] | None = None

    def allowed(self, grid: Grid) -> Tensor | None:
        return None if self.rule is None else self.rule(grid)

    def __and__(self, other: Mask) -> Mask:
        if self.rule is None:
            return other
        return self if other.rule is None else Mask(lambda grid: _both(self.allowed(grid), other.allowed(grid)))

    def __or__(self, other: Mask) -> Mask:
        if self.rule is None or other.rule is None:
            return Mask()
        return Mask(lambda grid: _either(self.allowed(grid), other.allowed(grid)))

    def shifted(self, starts: Tensor | None) -> Mask:
        """The same mask where sentence b begins at index starts[b]: what lies before it is padding."""
        if starts is None:
            return self

        def rule(grid: Grid) -> Tensor | None:
            grid = replace(grid, starts=starts)
            return _both(grid.keys >= 0, self.allowed(grid))

        return Mask(rule)

    @staticmethod
    def causal() -> Mask:
        """No key after the query."""
        return CAUSAL

    @staticmethod
    def padding(lengths: Table) -> Mask:
        """Only the first lengths[b] keys of sentence b."""
        own = _axes(lengths, (1,), "lengths of a padding mask")[:, None, None, None]
        return Mask(lambda grid: grid.keys < own)

    @staticmethod
    def window(size: int) -> Mask:
        """Keys fewer than `size` steps away, on either side; with `causal`, the last `size` keys."""
        if size < 1:
            raise UserError(f"window of {size} leaves nothing to attend to; use 1 (itself alone) or more")
        return Mask(lambda grid: (grid.keys - grid.queries).abs() < size)

    @staticmethod
    def segments(ids: Table, query_ids: Table | None = None) -> Mask:
        """Packed documents: keys of the same segment; ids (B, S), and (B, T) where queries have their own."""
        of_keys = _axes(ids, (2,), "segment ids")
        if query_ids is None:
            return Mask(lambda grid: _seated(of_keys, grid, "segment ids") == _keyed(of_keys, grid, "segment ids"))
        of_queries = _axes(query_ids, (2,), "segment ids of queries")

        def rule(grid: Grid) -> Tensor:
            queries = _pick(of_queries, grid.rows, grid.shape[0], "segment ids of queries")[:, None, :, None]
            return queries == _keyed(of_keys, grid, "segment ids")

        return Mask(rule)

    @staticmethod
    def globals(which: Table) -> Mask:
        """Pairs in which the query or the key is global, (S,) or (B, S) booleans; made to be joined with `|`."""
        name = "global tokens"
        own = torch.atleast_2d(_boolean(which, (1, 2), name))
        return Mask(lambda grid: _seated(own, grid, name) | _keyed(own, grid, name))

    @staticmethod
    def prefix(lengths: Table) -> Mask:
        """Causal, but the first lengths[b] keys are seen by all [Raffel+ 2020, prefix LM]."""
        return CAUSAL | Mask.padding(lengths)

    @staticmethod
    def permutation(order: Table, *, sees_itself: bool = True) -> Mask:
        """Keys that come no later in a factorisation order, (S,) or (B, S) positions [Yang+ 2019, eq. 3].

        Without `sees_itself` it is XLNet's query stream, which must not look at the word it predicts.
        """
        ranks = torch.atleast_2d(_axes(order, (1, 2), "order")).argsort(-1)
        compare = torch.le if sees_itself else torch.lt
        return Mask(lambda grid: compare(_keyed(ranks, grid, "order"), _seated(ranks, grid, "order")))

    @staticmethod
    def matrix(allowed: Table) -> Mask:
        """Any 0/1 matrix: (T, S), (B, T, S) or (B, H, T, S)."""
        table = _boolean(allowed, (2, 3, 4), "mask matrix")
        table = table[:, None] if table.dim() == 3 else table[(None,) * (4 - table.dim())]

        def rule(grid: Grid) -> Tensor:
            if tuple(table.shape[-2:]) != grid.shape:
                raise UserError(
                    f"mask matrix of {tuple(table.shape[-2:])} queries x keys does not fit "
                    f"{grid.shape[0]} queries and {grid.shape[1]} keys; build it with those two sizes"
                )
            return table[..., grid.rows, :][..., grid.columns]

        return Mask(rule)


# One object, because fused kernels know it. A single query sits at the last key, and sees all.
CAUSAL = Mask(lambda grid: None if grid.shape[0] == 1 else grid.keys <= grid.queries)


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return _fitting(first, second) & second


def _either(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else _fitting(first, second) | second


def _pick(table: Tensor, index: Tensor, size: int, what: str) -> Tensor:
    if table.shape[1] != size:
        raise UserError(f"{what} cover {table.shape[1]} places but there are {size}; give one for each place")
    return table[:, index]


def _keyed(table: Tensor, grid: Grid, what: str) -> Tensor:
    """The entries of the keys, broadcastable to (B, 1, T, S)."""
    return _pick(table, grid.columns, grid.shape[1], what)[:, None, None, :]


def _seated(table: Tensor, grid: Grid, what: str) -> Tensor:
    """The entries of the places where the queries sit, broadcastable to (B, 1, T, S)."""
    if grid.shape[0] > grid.shape[1]:
        raise UserError(
            f"{what} belong to keys, and {grid.shape[0]} queries do not all sit at one of {grid.shape[1]} keys; "
            "use this mask where queries are among the keys"
        )
    return _pick(table, grid.seats, grid.shape[1], what)[:, None, :, None]


def _fitting(first: Tensor, second: Tensor) -> Tensor:
    pairs = zip(first.shape, second.shape, strict=True)
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise UserError(f"masks of {tuple(first.shape)} and {tuple(second.shape)} do not fit; build both for one batch")
    return first


def _axes(x: Table, wanted: tuple[int, ...], what: str) -> Tensor:
    x = torch.as_tensor(x)
    if x.dim() not in wanted:
        counts = " or ".join(map(str, wanted))
        raise UserError(f"{what} have {x.dim()} axes (shape {tuple(x.shape)}); they need {counts}")
    return x


def _boolean(x: Table, axes: tuple[int, ...], what: str) -> Tensor:
    x = torch.as_tensor(x)
    if x.dtype != torch.bool and (x.is_floating_point() or bool(((x != 0) & (x != 1)).any())):
        raise UserError(f"{what} of {x.dtype} are not 0/1; use booleans (True = may attend), or bias= for numbers")
    return _axes(x.bool(), axes, what)
