"""Block and Stack: the trunk of encoders, decoders and everything built like them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention.cache import KV, Past
from regard.attention.mask import Mask
from regard.attention.multihead import MultiheadAttention
from regard.attention.position import Places, layer_position, steps
from regard.attention.site import Site
from regard.nn.config import StackConfig
from regard.nn.embed import Steps
from regard.nn.parts import FeedForward, Residual, make_norm


@dataclass(frozen=True, eq=False)
class Memory:
    """What blocks look at besides themselves: keys and values by layer, and which of them count."""

    layers: Sequence[KV]
    mask: Mask


@dataclass(frozen=True, eq=False)
class Stacked:
    """The trunk's output (B, T, C), and what its layers keep of all so far."""

    x: Tensor
    past: Past


class Block(nn.Module):
    """A mixer, cross-attention where there is a memory, feed-forward; each inside a residual of its own.

    A mixer is attention, or what mixes steps otherwise (linear attention, retention): it has `project_kv`, which gives
    a cache with `append`, `select` and `num_keys`, and is called as attention is."""

    def __init__(
        self,
        mixer: nn.Module,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
        cross_attention: MultiheadAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attention: Any = mixer
        self.self_residual = residual()
        self.cross_attention, self.cross_residual = cross_attention, residual() if cross_attention else None
        self.feedforward, self.feedforward_residual = feedforward, residual()

    def forward(
        self, x: Tensor, mask: Mask, past: KV | None, places: Places, memory: KV | None, across: Mask, site: Site
    ) -> tuple[Tensor, KV]:
        seen = self.self_residual.enter(x)
        cache = self.self_attention.project_kv(seen, None, places[0], mask)
        cache = past.append(cache) if past else cache
        said = self.self_attention(seen, cache, mask=mask, places=places, site=site / "self")
        x = self.self_residual.leave(x, said, site / "self")
        if self.cross_attention is not None and self.cross_residual is not None:
            assert memory is not None, "a block with cross-attention needs a memory"
            seen = self.cross_residual.enter(x)
            said = self.cross_attention(seen, memory, mask=across, site=(site / "cross").onto("source"))
            x = self.cross_residual.leave(x, said, site / "cross")
        said = self.feedforward(self.feedforward_residual.enter(x), site / "hidden")
        return self.feedforward_residual.leave(x, said, site / "feedforward"), cache


class Stack(nn.Module):
    """Blocks, one above the other; with norms before the sub-layers, one more at the end."""

    def __init__(self, config: StackConfig, num_layers: int, *, cross: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(make_block(config, layer, cross) for layer in range(num_layers))
        self.width = config.width
        last = config.placement == "pre"
        self.norm = make_norm(config.norm, config.width, config.norm_eps) if last else nn.Identity()

    def read(self, steps: Steps, site: Site = Site()) -> Steps:
        """As an encoder."""
        return replace(steps, x=self(steps.x, mask=steps.mask, places=steps.places, site=site).x)

    def project_kv(self, memory: Tensor) -> tuple[KV, ...]:
        """What each layer's cross-attention keeps of an encoder's output (B, S, C)."""
        return tuple(block.cross_attention.project_kv(memory) for block in self.blocks)  # type: ignore[operator, union-attr]

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask = Mask(),
        memory: Memory | None = None,
        past: Past | None = None,
        places: Tensor | None = None,
        site: Site = Site(),
    ) -> Stacked:
        """x (B, T, C) continues the past; its places (1|B, T) are counted, unless they are given."""
        starts = past.starts if past else None
        num_keys = x.shape[1] + (past.num_keys if past else 0)
        both = steps(x.shape[1], num_keys, starts, x.device) if places is None else (places, places)
        mask = mask.shifted(starts)
        caches = []
        for i, block in enumerate(self.blocks):
            kv, across = (memory.layers[i], memory.mask) if memory else (None, Mask())
            x, cache = block(x, mask, past.layers[i] if past else None, both, kv, across, site / i)
            caches.append(cache)
        return Stacked(self.norm(x), Past(tuple(caches), starts))

    def nothing_yet(self, rows: int) -> Past:
        """The past of rows that have said nothing."""
        nothing = next(self.parameters()).new_zeros(rows, 0, self.width)
        return Past(tuple(block.self_attention.project_kv(nothing) for block in self.blocks))  # type: ignore[operator, union-attr]


def make_block(config: StackConfig, layer: int, cross: bool = False) -> Block:
    """The Transformer's, of a layer counted from 0."""
    attention = config.attention
    position = layer_position(config.position, attention.head_width, attention.num_heads, layer)
    widths = config.width, config.hidden
    return Block(
        MultiheadAttention(attention, position),
        FeedForward(*widths, config.activation, config.hidden_dropout, config.bias),
        partial(Residual, config.width, config.norm, config.norm_eps, config.placement, config.dropout),
        MultiheadAttention(attention) if cross else None,
    )
