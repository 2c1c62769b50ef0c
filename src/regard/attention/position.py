"""Positions: how attention, which knows no order, is told one; and biases, which are added to scores.

A `Position` is a set of hooks: on embeddings, on q, k and v, on the scores (where it may depend on q), and on the
values through the weights. Each hook does nothing unless a kind of position needs it. Positions of steps are integer
tensors (1, T) or (B, T), counted from 0. A bias is asked for a block of queries and keys at a time: none is held whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from regard.attention.config import PositionConfig, alibi_slopes
from regard.attention.encoding import ENCODINGS, wavelengths
from regard.errors import UserError

Places = tuple[Tensor, Tensor]  # of queries (1|B, T) and of keys (1|B, S)
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


class Position(nn.Module):
    """No position at all: attention is a function of a set."""

    def embed(self, x: Tensor, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        """On embeddings (B, T, C)."""
        return x

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        """On queries (B, H, T, D); there are hooks alike on keys (B, G, S, D) and on values (B, G, S, E)."""
        return x

    keys = values = queries

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Bias | None:
        """On scores, and perhaps on values through the weights; from q and the positions of queries and keys."""
        return None


class Added(Position):
    """An encoding of each step, added to the embeddings [Vaswani+ 2017, section 3.5]."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def embed(self, x: Tensor, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        return x + self.encoding(positions, lengths).to(x.dtype)


class AddedToProjections(Added):
    """An encoding of each step, added to q, k and v; meant for the first layer alone, as one deck has it."""

    embed = Position.embed

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.encoding(positions, None)[:, None].to(x.dtype)

    keys = values = queries


class Shaw(Position):
    """Learned vectors for each distance up to `clip`, added to keys and values [Shaw+ 2018, eq. 3 and 4].

    One table for all heads, as in the paper. The key side becomes a bias q · a / sqrt(D): no (T, S, D) tensor.
    """

    def __init__(self, width: int, clip: int) -> None:
        super().__init__()
        self.clip = clip
        self.key_table = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(2 * clip + 1, width), a=1))
        self.value_table = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(2 * clip + 1, width), a=1))

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Bias:
        answers = (q * q.shape[-1] ** -0.5) @ self.key_table.T  # -> (B, H, T, 2 clip + 1)
        return ShawBias(answers, self.value_table, self.clip, queries, keys)


@dataclass(frozen=True, eq=False)
class ShawBias(Bias):
    """What each query answers to each distance, and the values of distances."""

    brings_values = True

    answers: Tensor  # (B, H, T, 2 clip + 1)
    value_table: Tensor
    clip: int
    queries: Tensor
    keys: Tensor

    def of(self, rows: slice) -> Self:
        return replace(self, answers=self.answers[:, :, rows], queries=self.queries[:, rows])

    def distances(self, columns: slice) -> Tensor:
        """Rows of the tables (1|B, 1, T, S)."""
        far = self.keys[:, None, columns] - self.queries[:, :, None]
        return (far.clamp(-self.clip, self.clip) + self.clip)[:, None]

    def scores(self, columns: slice = ALL) -> Tensor:
        return self.answers.gather(-1, self.distances(columns).expand(*self.answers.shape[:2], -1, -1))

    def values(self, weights: Tensor, columns: slice = ALL) -> Tensor:
        per_distance = weights.new_zeros(*weights.shape[:3], len(self.value_table))
        index = self.distances(columns).expand_as(weights)
        return per_distance.scatter_add(-1, index, weights) @ self.value_table


class Rotary(Position):
    """Queries and keys turned by an angle that grows with the step [Su+ 2021, eq. 15]: scores see distances only."""

    def __init__(self, width: int, layout: str, base: float) -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"rotary positions turn pairs, so head width {width} must be even; try {width + 1}")
        self.interleaved = layout == "interleaved"
        self.angles = wavelengths(width, base)

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        turns = positions[:, None, :, None] * self.angles.to(x.device)  # -> (1|B, 1, T, D/2)
        cos, sin = turns.cos().to(x.dtype), turns.sin().to(x.dtype)
        a, b = (x[..., 0::2], x[..., 1::2]) if self.interleaved else x.chunk(2, dim=-1)
        turned = a * cos - b * sin, a * sin + b * cos
        return torch.stack(turned, -1).flatten(-2) if self.interleaved else torch.cat(turned, -1)

    keys = queries


class Alibi(Position):
    """A penalty that grows with distance, by a slope per head [Press+ 2022, section 3]."""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.from_numpy(alibi_slopes(num_heads)), persistent=False)

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Bias:
        return AlibiBias(self.slopes, queries, keys, q.dtype)


@dataclass(frozen=True, eq=False)
class AlibiBias(Bias):
    slopes: Tensor  # (H,)
    queries: Tensor
    keys: Tensor
    dtype: torch.dtype

    def of(self, rows: slice) -> Self:
        return replace(self, queries=self.queries[:, rows])

    def scores(self, columns: slice = ALL) -> Tensor:
        distance = (self.keys[:, None, columns] - self.queries[:, :, None]).abs()[:, None]
        return -(self.slopes[:, None, None] * distance).to(self.dtype)


def steps(num_queries: int, num_keys: int, starts: Tensor | None, device: torch.device) -> Places:
    """Positions of the queries, which are the last of the keys, and of the keys."""
    keys = torch.arange(num_keys, device=device)[None]
    if starts is not None:
        keys = keys - starts[:, None]
    return keys[:, num_keys - num_queries :], keys


def input_position(config: PositionConfig, width: int) -> Position:
    """What a model adds to its embeddings."""
    if config.kind in ENCODINGS and config.place == "embedding":
        return Added(ENCODINGS[config.kind](config, width))
    return Position()


def layer_position(config: PositionConfig, head_width: int, num_heads: int, layer: int) -> Position:
    """What self-attention in a layer (counted from 0) is told."""
    if config.kind in ENCODINGS and config.place == "projections" and layer == 0:
        return AddedToProjections(ENCODINGS[config.kind](config, head_width))
    make = RELATIVE.get(config.kind)
    return make(config, head_width, num_heads) if make else Position()


RELATIVE: dict[str, Callable[[PositionConfig, int, int], Position]] = {
    "shaw": lambda config, width, heads: Shaw(width, config.clip),
    "rotary": lambda config, width, heads: Rotary(width, config.layout, config.base),
    "alibi": lambda config, width, heads: Alibi(heads),
}
