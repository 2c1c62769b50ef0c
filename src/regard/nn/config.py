"""Settings of blocks and recurrent layers, free of torch."""

from dataclasses import dataclass, field
from typing import Literal

from regard.attention.config import AttentionConfig, PositionConfig
from regard.bounds import check_bounds

Placement = Literal["pre", "post", "none"]
DERIVED = {"derived": True}  # a setting that no recipe has: a tokenizer tells it, or a model that was made elsewhere


class Bounded:
    """Settings that are checked when they are made; each class adds its own rules after those of its bases."""

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class StackConfig(Bounded):
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
    kernel: Literal["auto", "reference", "fused", "chunked"] = "auto"
    """How attention is computed; chunked needs memory linear in the length."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.attention  # its rules hold for these fields too

    @property
    def attention(self) -> AttentionConfig:
        same = {name: getattr(self, name) for name in ("width", "num_heads", "num_kv_heads", "score", "bias", "kernel")}
        return AttentionConfig(own_head_width=self.head_width, dropout=self.attention_dropout, **same)


@dataclass(frozen=True, kw_only=True)
class RecurrentLayersConfig(Bounded):
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

    @property
    def out_width(self) -> int:
        return self.width * (2 if self.bidirectional else 1)

    @property
    def num_states(self) -> int:
        """Vectors of state per layer and direction: an LSTM keeps h and c."""
        return 2 if self.cell == "lstm" else 1
