"""Settings of attention, free of torch."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.bounds import check_bounds
from regard.errors import UserError

PositionKind = Literal["none", "sinusoid", "learned", "shaw", "rotary", "alibi", "index", "fraction"]
ABSOLUTE = ("sinusoid", "learned", "index", "fraction")  # an encoding of each step, to be added somewhere


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """How a model knows the order of its input."""

    kind: PositionKind = "sinusoid"
    place: Literal["embedding", "projections"] = "embedding"
    """Where an absolute encoding is added: to the embedding, or to q, k and v of the first layer."""
    layout: Literal["interleaved", "halves"] = "interleaved"
    """Of sines and cosines: by turns (the paper, the lectures), or all sines first (tensor2tensor, Marian)."""
    max_length: int | None = None
    """Steps that a learned table holds."""
    clip: int = 16
    """Steps beyond which Shaw's relative positions count as equally far."""
    base: float = field(default=10000.0, metadata={"derived": True})
    """Of the wavelengths of sinusoids and rotations."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if (self.kind == "learned") != (self.max_length is not None):
            raise UserError(
                f"position {self.kind} with max_length {self.max_length}; learned ones need it, others take none"
            )
        if self.clip < 1:
            raise UserError(f"clip {self.clip} knows no neighbour; use 1 or more")
        if self.place == "projections" and self.kind not in ABSOLUTE:
            raise UserError(f"position {self.kind} has its own place; drop 'place', or use {', '.join(ABSOLUTE)}")
        if self.base <= 1.0:
            raise UserError(f"base {self.base} gives no range of wavelengths; try 10000")


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """One layer of attention: `num_heads` queries look at `num_kv_heads` keys and values."""

    width: int
    """Of the queries' source, and of the output where there are projections."""
    memory_width: int | None = None
    """Of what is looked at; default: width."""
    num_heads: int = 1
    num_kv_heads: int | None = None
    """Default: num_heads. Fewer share keys and values between heads (GQA); 1 is multi-query."""
    own_head_width: int | None = None
    """Default: width / num_heads."""
    score: str = "scaled_dot"
    score_hidden: tuple[int, ...] = ()
    """Hidden widths of the additive and mlp scores; default: one of the query's width."""
    projection: tuple[int, ...] | None = ()
    """Hidden widths of the maps to q, k and v: () is linear, (64,) an MLP, None leaves the states as they are."""
    bias: bool = True
    """Whether the projections have one."""
    dropout: float = 0.0
    """Of the attention weights."""
    kernel: str = "auto"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.projection is None:
            if self.num_heads != 1 or self.groups != 1:
                raise UserError(
                    f"{self.num_heads} heads without projections would be alike; use one, or projection: []"
                )
        elif self.own_head_width is None and self.width % self.num_heads:
            try_width = self.width - self.width % self.num_heads or self.num_heads
            raise UserError(f"width {self.width} is not a multiple of num_heads {self.num_heads}; try {try_width}")
        if self.num_heads % self.groups:
            near = max(d for d in range(1, self.num_heads + 1) if self.num_heads % d == 0 and d <= self.groups)
            raise UserError(f"num_kv_heads {self.groups} does not divide num_heads {self.num_heads}; try {near}")

    @property
    def groups(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def memory(self) -> int:
        return self.memory_width or self.width

    @property
    def head_width(self) -> int:
        """Of one query head."""
        return self.own_head_width or self.width // self.num_heads

    @property
    def out_width(self) -> int:
        """Of what comes back."""
        return self.memory if self.projection is None else self.width


def alibi_slopes(num_heads: int) -> NDArray[np.float32]:
    """2^(-8/n), 2^(-16/n), ...; where n is no power of two, the next power's fill up, as in the paper's code."""
    power = 1 << (num_heads.bit_length() - 1)
    exponents = np.arange(1, power + 1) * (-8 / power)
    extra = np.arange(1, 2 * (num_heads - power) + 1, 2) * (-4 / power)
    return (2.0 ** np.concatenate((exponents, extra))).astype(np.float32)
