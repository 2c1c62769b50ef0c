"""Masks: who may attend to whom, as values that compose. True means: may attend.

A mask knows no tensor shapes until it is asked about a `Grid` of queries and keys; it then answers with a boolean
tensor that broadcasts to (B, H, T, S), or None where everything is allowed. Queries are the last T of S places
(bottom-right alignment), because with a cache the newest queries look at all keys so far.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Mask:
    """Everything may attend to everything; the neutral element of `&`."""

    def allowed(self, grid: Grid) -> Tensor | None:
        return None

    def __and__(self, other: Mask) -> Mask:
        if type(self) is Mask:
            return other
        return self if type(other) is Mask else _Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Mask() if Mask in (type(self), type(other)) else _Either(self, other)

    def shifted(self, starts: Tensor | None) -> Mask:
        """The same mask where sentence b begins at index starts[b]: what lies before it is padding."""
        return self if starts is None else _Shifted(self, starts)

    @staticmethod
    def causal() -> Mask:
        """No key after the query."""
        return Causal()

    @staticmethod
    def padding(lengths: Table) -> Mask:
        """Only the first lengths[b] keys of sentence b."""
        return _Padding(_axes(lengths, (1,), "lengths of a padding mask"))

    @staticmethod
    def window(size: int) -> Mask:
        """Keys fewer than `size` steps away, on either side; with `causal`, the last `size` keys."""
        if size < 1:
            raise UserError(f"window of {size} leaves nothing to attend to; use 1 (itself alone) or more")
        return _Window(size)

    @staticmethod
    def segments(ids: Table, query_ids: Table | None = None) -> Mask:
        """Packed documents: keys of the same segment; ids (B, S), and (B, T) where queries have their own."""
        return _Segments(
            _axes(ids, (2,), "segment ids"),
            None if query_ids is None else _axes(query_ids, (2,), "segment ids of queries"),
        )

    @staticmethod
    def globals(which: Table) -> Mask:
        """Pairs in which the query or the key is global, (S,) or (B, S) booleans; made to be joined with `|`."""
        return _Globals(torch.atleast_2d(_boolean(which, (1, 2), "global tokens")))

    @staticmethod
    def prefix(lengths: Table) -> Mask:
        """Causal, but the first lengths[b] keys are seen by all [Raffel+ 2020, prefix LM]."""
        return Causal() | Mask.padding(lengths)

    @staticmethod
    def permutation(order: Table, *, sees_itself: bool = True) -> Mask:
        """Keys that come no later in a factorisation order, (S,) or (B, S) positions [Yang+ 2019, eq. 3].

        Without `sees_itself` it is XLNet's query stream, which must not look at the word it predicts.
        """
        return _Permutation(torch.atleast_2d(_axes(order, (1, 2), "order")).argsort(-1), sees_itself)

    @staticmethod
    def matrix(allowed: Table) -> Mask:
        """Any 0/1 matrix: (T, S), (B, T, S) or (B, H, T, S)."""
        matrix = _boolean(allowed, (2, 3, 4), "mask matrix")
        return _Matrix(matrix[:, None] if matrix.dim() == 3 else matrix[(None,) * (4 - matrix.dim())])


class Causal(Mask):
    """See Mask.causal; a class of its own because fused kernels know it."""

    def allowed(self, grid: Grid) -> Tensor | None:
        return None if grid.shape[0] == 1 else grid.keys <= grid.queries  # one query sits at the last key


@dataclass(frozen=True, eq=False)
class _Padding(Mask):
    lengths: Tensor

    def allowed(self, grid: Grid) -> Tensor:
        return grid.keys < self.lengths[:, None, None, None]


@dataclass(frozen=True, eq=False)
class _Window(Mask):
    size: int

    def allowed(self, grid: Grid) -> Tensor:
        return (grid.keys - grid.queries).abs() < self.size


@dataclass(frozen=True, eq=False)
class _Segments(Mask):
    ids: Tensor
    query_ids: Tensor | None

    def allowed(self, grid: Grid) -> Tensor:
        keys = _pick(self.ids, grid.columns, grid.shape[1], "segment ids")
        queries = (
            _seated(self.ids, grid, "segment ids")
            if self.query_ids is None
            else _pick(self.query_ids, grid.rows, grid.shape[0], "segment ids of queries")
        )
        return queries[:, None, :, None] == keys[:, None, None, :]


@dataclass(frozen=True, eq=False)
class _Globals(Mask):
    which: Tensor

    def allowed(self, grid: Grid) -> Tensor:
        keys = _pick(self.which, grid.columns, grid.shape[1], "global tokens")
        queries = _seated(self.which, grid, "global tokens")
        return queries[:, None, :, None] | keys[:, None, None, :]


@dataclass(frozen=True, eq=False)
class _Permutation(Mask):
    ranks: Tensor
    sees_itself: bool

    def allowed(self, grid: Grid) -> Tensor:
        keys = _pick(self.ranks, grid.columns, grid.shape[1], "order")[:, None, None, :]
        queries = _seated(self.ranks, grid, "order")[:, None, :, None]
        return keys <= queries if self.sees_itself else keys < queries


@dataclass(frozen=True, eq=False)
class _Matrix(Mask):
    table: Tensor

    def allowed(self, grid: Grid) -> Tensor:
        if tuple(self.table.shape[-2:]) != grid.shape:
            raise UserError(
                f"mask matrix of {tuple(self.table.shape[-2:])} queries x keys does not fit "
                f"{grid.shape[0]} queries and {grid.shape[1]} keys; build it with those two sizes"
            )
        return self.table[..., grid.rows, :][..., grid.columns]


@dataclass(frozen=True, eq=False)
class _Both(Mask):
    first: Mask
    second: Mask

    def allowed(self, grid: Grid) -> Tensor | None:
        first, second = self.first.allowed(grid), self.second.allowed(grid)
        if first is None or second is None:
            return second if first is None else first
        return _fitting(first, second) & second


@dataclass(frozen=True, eq=False)
class _Either(Mask):
    first: Mask
    second: Mask

    def allowed(self, grid: Grid) -> Tensor | None:
        first, second = self.first.allowed(grid), self.second.allowed(grid)
        return None if first is None or second is None else _fitting(first, second) | second


@dataclass(frozen=True, eq=False)
class _Shifted(Mask):
    mask: Mask
    starts: Tensor

    def allowed(self, grid: Grid) -> Tensor:
        grid = replace(grid, starts=self.starts)
        inside = grid.keys >= 0
        allowed = self.mask.allowed(grid)
        return inside if allowed is None else _fitting(inside, allowed) & allowed


def _pick(table: Tensor, index: Tensor, size: int, what: str) -> Tensor:
    if table.shape[1] != size:
        raise UserError(f"{what} cover {table.shape[1]} places but there are {size}; give one for each place")
    return table[:, index]


def _seated(table: Tensor, grid: Grid, what: str) -> Tensor:
    """The entries of the places where the queries sit."""
    if grid.shape[0] > grid.shape[1]:
        raise UserError(
            f"{what} belong to keys, and {grid.shape[0]} queries do not all sit at one of {grid.shape[1]} keys; "
            "use this mask where queries are among the keys"
        )
    return _pick(table, grid.seats, grid.shape[1], what)


def _fitting(first: Tensor, second: Tensor) -> Tensor:
    pairs = zip(first.shape, second.shape, strict=True)
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise UserError(
            f"masks of shapes {tuple(first.shape)} and {tuple(second.shape)} (batch, heads, queries, keys) "
            "do not go together; build both for the same batch"
        )
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
        raise UserError(
            f"{what} of {x.dtype} are not 0/1; use booleans (True = may attend), "
            "or pass numbers that are to be added as bias="
        )
    return _axes(x.bool(), axes, what)


# The named constructors; contract tests run over every one.
MASKS = {
    "none": Mask,
    "causal": Mask.causal,
    "padding": Mask.padding,
    "window": Mask.window,
    "segments": Mask.segments,
    "globals": Mask.globals,
    "prefix": Mask.prefix,
    "permutation": Mask.permutation,
    "matrix": Mask.matrix,
}
