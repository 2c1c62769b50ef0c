"""Masks: who may attend to whom, as values that compose. True means: may attend.

A mask is a tree of parts, each frozen and printable. It knows no tensor shapes until it is asked about a `Grid`, a
block of queries and keys. Queries are the last T of S places (bottom-right alignment), because with a cache the newest
queries look at all keys so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from regard.errors import UserError

Table = Tensor | Sequence[Any]  # nested lists will do where a mask is made
SHOWN = 8  # numbers of a tensor that a printed mask shows


@dataclass(frozen=True, eq=False)
class Grid:
    """A block of queries x keys that a mask is asked about.

    `rows` and `columns` are places in the whole, whose size is `shape`; `starts` (B,) is the place at which each
    sentence begins, where rows are filled up on the left.
    """

    rows: range
    columns: range
    shape: tuple[int, int]
    device: torch.device | None = None
    starts: Tensor | None = None

    @staticmethod
    def whole(num_queries: int, num_keys: int, device: torch.device | None = None) -> Grid:
        return Grid(range(num_queries), range(num_keys), (num_queries, num_keys), device)

    def block(self, rows: slice, columns: slice) -> Grid:
        return replace(self, rows=self.rows[rows], columns=self.columns[columns])

    @property
    def seats(self) -> range:
        """The place among the keys at which each query sits."""
        ahead = self.shape[1] - self.shape[0]
        return range(self.rows.start + ahead, self.rows.stop + ahead)

    @property
    def distances(self) -> tuple[int, int]:
        """How far keys lie after queries, at least and at most."""
        return self.columns[0] - self.seats[-1], self.columns[-1] - self.seats[0]

    def far(self) -> Tensor:
        """How far each key lies after each query (1, 1, T, S)."""
        return (self.index(self.columns)[None] - self.index(self.seats)[:, None])[None, None]

    def keys(self) -> Tensor:
        """Positions of the keys, broadcastable to (B, 1, T, S)."""
        columns = self.index(self.columns)[None]
        return (columns if self.starts is None else columns - self.starts[:, None])[:, None, None, :]

    def index(self, places: range) -> Tensor:
        return torch.arange(places.start, places.stop, device=self.device)


@dataclass(frozen=True, eq=False)
class Mask:
    """Everything may attend to everything, which is the neutral element of `&`; its subclasses forbid something."""

    def allowed(self, grid: Grid) -> Tensor | None:
        """Booleans that broadcast to (B, H, T, S), or None where everything is allowed."""
        return None

    def block(self, grid: Grid) -> bool | Tensor:
        """True where all of a block is allowed, False where nothing is, else as `allowed`."""
        return _settled(self.allowed(grid))

    def reach(self, num_keys: int) -> int:
        """Keys that a query may attend to, at most."""
        return num_keys

    def to(self, device: torch.device | str) -> Self:
        return replace(self, **{n: x.to(device) for n, x in vars(self).items() if isinstance(x, Tensor | Mask)})

    def select(self, index: Tensor) -> Self:
        """For the rows of a batch named by `index`; what is the same for all rows stays."""
        rows = {n: x[index] for n, x in vars(self).items() if isinstance(x, Tensor) and (x.dim() == 1 or len(x) > 1)}
        return replace(self, **rows, **{n: x.select(index) for n, x in vars(self).items() if isinstance(x, Mask)})

    def __and__(self, other: Mask) -> Mask:
        if type(self) is Mask:
            return other
        return self if type(other) is Mask else And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Mask() if Mask in (type(self), type(other)) else Or(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_shown(x) for x in vars(self).values() if x is not None)})"

    def shifted(self, starts: Tensor | None) -> Mask:
        """The same mask where sentence b begins at place starts[b]: what lies before it is padding."""
        return self if starts is None else Shifted(self, starts)

    @staticmethod
    def causal() -> Mask:
        """No key after the query."""
        return Causal()

    @staticmethod
    def padding(lengths: Table) -> Mask:
        """Only the first lengths[b] keys of sentence b."""
        return Padding(_axes(lengths, (1,), "lengths of a padding mask"))

    @staticmethod
    def window(size: int) -> Mask:
        """Keys fewer than `size` steps away, on either side; with `causal`, the last `size` keys."""
        if size < 1:
            raise UserError(f"window of {size} leaves nothing to attend to; use 1 (itself alone) or more")
        return Window(size)

    @staticmethod
    def segments(ids: Table, query_ids: Table | None = None) -> Mask:
        """Packed documents: keys of the same segment; ids (B, S), and (B, T) where queries have their own."""
        of_queries = None if query_ids is None else _axes(query_ids, (2,), "segment ids of queries")
        return Segments(_axes(ids, (2,), "segment ids"), of_queries)

    @staticmethod
    def globals(which: Table) -> Mask:
        """Pairs in which the query or the key is global, (S,) or (B, S) booleans; made to be joined with `|`."""
        return Globals(torch.atleast_2d(_boolean(which, (1, 2), "global tokens")))

    @staticmethod
    def prefix(lengths: Table) -> Mask:
        """Causal, but the first lengths[b] keys are seen by all [Raffel+ 2020, prefix LM]."""
        return Mask.causal() | Mask.padding(lengths)

    @staticmethod
    def permutation(order: Table, *, sees_itself: bool = True) -> Mask:
        """Keys that come no later in a factorisation order, (S,) or (B, S) positions [Yang+ 2019, eq. 3].

        Without `sees_itself` it is XLNet's query stream, which must not look at the word it predicts.
        """
        return Permutation(torch.atleast_2d(_axes(order, (1, 2), "order")).argsort(-1), sees_itself)

    @staticmethod
    def matrix(allowed: Table) -> Mask:
        """Any 0/1 matrix: (T, S), (B, T, S) or (B, H, T, S)."""
        table = _boolean(allowed, (2, 3, 4), "mask matrix")
        return Matrix(table[:, None] if table.dim() == 3 else table[(None,) * (4 - table.dim())])


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Mask):
    def allowed(self, grid: Grid) -> Tensor | None:
        return None if grid.distances[1] <= 0 else grid.far() <= 0

    def block(self, grid: Grid) -> bool | Tensor:
        return False if grid.distances[0] > 0 else super().block(grid)


@dataclass(frozen=True, eq=False, repr=False)
class Window(Mask):
    size: int

    def reach(self, num_keys: int) -> int:
        return min(num_keys, 2 * self.size - 1)

    def allowed(self, grid: Grid) -> Tensor | None:
        nearest, farthest = grid.distances
        return None if -self.size < nearest and farthest < self.size else grid.far().abs() < self.size

    def block(self, grid: Grid) -> bool | Tensor:
        nearest, farthest = grid.distances
        return False if nearest >= self.size or farthest <= -self.size else super().block(grid)


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Mask):
    lengths: Tensor  # (B,)

    def allowed(self, grid: Grid) -> Tensor:
        return grid.keys() < self.lengths[:, None, None, None]


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Mask):
    ids: Tensor  # of the keys (B, S)
    of_queries: Tensor | None  # (B, T), or those of the keys where they sit

    def allowed(self, grid: Grid) -> Tensor:
        keys = _keyed(self.ids, grid, "segment ids")
        if self.of_queries is None:
            return _seated(self.ids, grid, "segment ids") == keys
        return _pick(self.of_queries, grid.rows, grid.shape[0], "segment ids of queries")[:, None, :, None] == keys


@dataclass(frozen=True, eq=False, repr=False)
class Globals(Mask):
    which: Tensor  # (1|B, S)

    def allowed(self, grid: Grid) -> Tensor:
        return _seated(self.which, grid, "global tokens") | _keyed(self.which, grid, "global tokens")


@dataclass(frozen=True, eq=False, repr=False)
class Permutation(Mask):
    ranks: Tensor  # of the keys in the order (1|B, S)
    sees_itself: bool

    def allowed(self, grid: Grid) -> Tensor:
        compare = torch.le if self.sees_itself else torch.lt
        return compare(_keyed(self.ranks, grid, "order"), _seated(self.ranks, grid, "order"))


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Mask):
    table: Tensor  # (1|B, 1|H, T, S)

    def allowed(self, grid: Grid) -> Tensor:
        if tuple(self.table.shape[-2:]) != grid.shape:
            raise UserError(
                f"mask matrix of {tuple(self.table.shape[-2:])} queries x keys does not fit "
                f"{grid.shape[0]} queries and {grid.shape[1]} keys; build it with those two sizes"
            )
        rows, columns = grid.rows, grid.columns
        return self.table[..., rows.start : rows.stop, columns.start : columns.stop]


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(Mask):
    """A mask where sentence b begins at place starts[b]."""

    mask: Mask
    starts: Tensor  # (B,)

    def allowed(self, grid: Grid) -> Tensor | None:
        grid = replace(grid, starts=self.starts)
        return _both(grid.keys() >= 0, self.mask.allowed(grid))

    def block(self, grid: Grid) -> bool | Tensor:
        return False if self.mask.block(replace(grid, starts=self.starts)) is False else super().block(grid)


@dataclass(frozen=True, eq=False, repr=False)
class And(Mask):
    first: Mask
    second: Mask

    def reach(self, num_keys: int) -> int:
        return min(self.first.reach(num_keys), self.second.reach(num_keys))

    def allowed(self, grid: Grid) -> Tensor | None:
        return _both(self.first.allowed(grid), self.second.allowed(grid))

    def block(self, grid: Grid) -> bool | Tensor:
        if (first := self.first.block(grid)) is False or (second := self.second.block(grid)) is False:
            return False
        return _settled(_both(*(None if part is True else part for part in (first, second))))

    def __repr__(self) -> str:
        return f"({self.first} & {self.second})"


@dataclass(frozen=True, eq=False, repr=False)
class Or(Mask):
    first: Mask
    second: Mask

    def allowed(self, grid: Grid) -> Tensor | None:
        first, second = self.first.allowed(grid), self.second.allowed(grid)
        return None if first is None or second is None else _fitting(first, second) | second

    def block(self, grid: Grid) -> bool | Tensor:
        if (first := self.first.block(grid)) is True or (second := self.second.block(grid)) is True:
            return True
        if first is False or second is False:
            return second if first is False else first
        return _settled(_fitting(first, second) | second)

    def __repr__(self) -> str:
        return f"({self.first} | {self.second})"


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return _fitting(first, second) & second


def _settled(allowed: Tensor | None) -> bool | Tensor:
    """As the answer for a block."""
    if allowed is None or bool(allowed.all()):
        return True
    return allowed if bool(allowed.any()) else False


def _pick(table: Tensor, places: range, size: int, what: str) -> Tensor:
    if table.shape[1] != size:
        raise UserError(f"{what} cover {table.shape[1]} places but there are {size}; give one for each place")
    return table[:, places.start : places.stop]


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


def _shown(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return repr(value.tolist()) if value.numel() <= SHOWN else "x".join(map(str, value.shape))
