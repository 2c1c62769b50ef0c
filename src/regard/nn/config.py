"""Settings of blocks and recurrent layers, free of torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.attention.config import AttentionConfig, PositionConfig
from regard.bounds import check_bounds
from regard.errors import UserError

Placement = Literal["pre", "post", "none"]
DERIVED = {"derived": True}  # a setting that no recipe has: a tokenizer tells it, or a model that was made elsewhere


def check_rates(**rates: float) -> None:
    """Raise for a dropout rate outside [0, 1)."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise UserError(f"{name} {rate} is outside [0, 1); try 0.1")


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Blocks of attention and feed-forward, one above the other."""

    width: int = 512
    hidden: int = 2048
    """Width inside the feed-forward layers."""
    num_heads: int = 8
    num_kv_heads: int | None = None
    """Default: num_heads."""
    head_width: int | None = field(default=None, metadata=DERIVED)
    """Default: width / num_heads."""
    position: PositionConfig = PositionConfig()
    """Of self-attention; cross-attention has the same shape, without position."""
    activation: str = "relu"
    norm: str = "layer"
    norm_eps: float = field(default=1e-5, metadata=DERIVED)
    placement: Placement = "post"
    """Norm before each sub-layer (steadier), after the residual (as published), or nowhere."""
    score: str = "scaled_dot"
    bias: bool = True
    """Of all linear maps."""
    dropout: float = 0.0
    """Of each sub-layer's output."""
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    """Inside the feed-forward layers."""

    def __post_init__(self) -> None:
        check_bounds(self)
        check_rates(dropout=self.dropout, hidden_dropout=self.hidden_dropout, attention_dropout=self.attention_dropout)
        if self.hidden < 1:
            raise UserError(f"hidden {self.hidden} must be at least 1")
        _ = self.attention  # its rules hold for these fields too

    @property
    def attention(self) -> AttentionConfig:
        return AttentionConfig(
            width=self.width,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            own_head_width=self.head_width,
            score=self.score,
            bias=self.bias,
            dropout=self.attention_dropout,
        )


@dataclass(frozen=True, kw_only=True)
class RecurrentLayersConfig:
    """Recurrent layers, one above the other."""

    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    input_width: int
    width: int
    """Of a direction's state."""
    num_layers: int = 1
    bidirectional: bool = False
    residual: bool = False
    """Add a layer's input to its output from the second layer on."""
    dropout: float = 0.0
    """Between layers."""

    def __post_init__(self) -> None:
        check_bounds(self)
        check_rates(dropout=self.dropout)
        if min(self.input_width, self.width, self.num_layers) < 1:
            raise UserError(
                f"recurrent layers of input_width {self.input_width}, width {self.width}, "
                f"num_layers {self.num_layers}; each must be at least 1"
            )

    @property
    def out_width(self) -> int:
        return self.width * (2 if self.bidirectional else 1)

    @property
    def num_states(self) -> int:
        """Vectors of state per layer and direction: an LSTM keeps h and c."""
        return 2 if self.cell == "lstm" else 1
