"""Multi-head attention: one class for self- and cross-attention, recurrent decoders and Transformers."""

from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from regard.attention.cache import KV
from regard.attention.config import AttentionConfig
from regard.attention.kernels import attend, attend_with_weights
from regard.attention.mask import Mask
from regard.attention.position import Places, Position, steps
from regard.attention.score import SCORES
from regard.attention.site import Site
from regard.errors import UserError


class MultiheadAttention(nn.Module):
    """Queries from x look at keys and values from a memory, H times over [Vaswani+ 2017, section 3.2.2].

    `project_kv` does all key- and value-side work, once per memory; `forward` looks. In self-attention the memory is x
    itself (or a cache of it), in cross-attention what an encoder made.
    """

    def __init__(self, config: AttentionConfig, position: Position | None = None) -> None:
        super().__init__()
        self.config = config
        width, memory, groups = config.width, config.memory, config.groups
        if config.score not in SCORES:
            raise UserError(f"there is no score {config.score!r}; choose {', '.join(SCORES)}")
        asking, shared = config.num_heads * config.head_width, groups * config.head_width
        self.to_q = _projection(width, config.projection, asking, config.bias)
        self.to_k = _projection(memory, config.projection, shared, config.bias)
        self.to_v = _projection(memory, config.projection, shared, config.bias)
        self.to_out = _projection(asking, None if config.projection is None else (), width, config.bias)
        widths = (width, memory) if config.projection is None else (config.head_width, config.head_width)
        self.score = SCORES[config.score](*widths, config.score_hidden)
        self.score.check(*widths)
        self.position = position or Position()

    def project_kv(
        self, keys_from: Tensor, values_from: Tensor | None = None, positions: Tensor | None = None, mask: Mask = Mask()
    ) -> KV:
        """Keys and values of a memory (B, S, C'), whose steps are at `positions` (1|B, S); values may come from another
        tensor than keys, as in ConvS2S. The mask is for mixers that sum over the memory; attention has it later."""
        k = self._split(self.to_k(keys_from))  # -> (B, G, S, D)
        v = self._split(self.to_v(keys_from if values_from is None else values_from))
        if positions is not None:
            k, v = self.position.keys(k, positions), self.position.values(v, positions)
        return KV(self.score.keys(k), v)

    def forward(
        self, x: Tensor, memory: KV, *, mask: Mask = Mask(), places: Places | None = None, site: Site = Site()
    ) -> Tensor:
        """x (B, T, C) looks at the memory -> (B, T, C); `places` are those of both, by default x is at its last T."""
        q = self._split(self.to_q(x), self.config.num_heads)  # -> (B, H, T, D)
        queries, keys = places or steps(x.shape[1], memory.num_keys, None, x.device)
        q = self.position.queries(q, queries)
        bias = self.position.bias(q, queries, keys)
        how: dict[str, Any] = {"score": self.score, "mask": mask, "bias": bias, "prepared": True}
        if site.key:
            how |= {"dropout": self.config.dropout, "key": site.key.fold(site.path, "weights")}
        if site.trace is None:
            out = attend(q, memory.k, memory.v, kernel=self.config.kernel, **how)
        else:
            attended = attend_with_weights(q, memory.k, memory.v, **how)
            site.trace.record(site, attended.weights)
            out = site.trace.heads(site.path, attended.out)
        return self.to_out(out.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor, heads: int | None = None) -> Tensor:
        """(B, T, H D) -> (B, H, T, D)."""
        return x.unflatten(-1, (heads or self.config.groups, -1)).transpose(1, 2)


def _projection(width: int, hidden: tuple[int, ...] | None, out: int, bias: bool) -> nn.Module:
    """A linear map, an MLP with ReLU between its layers, or nothing."""
    if hidden is None:
        return nn.Identity()
    widths = [width, *hidden, out]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return layers[0] if len(layers) == 2 else nn.Sequential(*layers[:-1])
