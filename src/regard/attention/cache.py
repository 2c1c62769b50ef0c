"""What attention keeps of a memory: keys and values, ready to be looked at."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class KV:
    """Keys (B, G, S, Dk) that a score has worked on, and values (B, G, S, E)."""

    k: Tensor
    v: Tensor

    @property
    def num_keys(self) -> int:
        return self.k.shape[2]

    def append(self, newer: "KV") -> "KV":
        """Grown along S; sentences end together on the right, so one `cat` serves rows of any age."""
        if self.num_keys == 0:
            return newer
        return KV(torch.cat((self.k, newer.k), 2), torch.cat((self.v, newer.v), 2))

    def select(self, index: Tensor) -> "KV":
        return KV(self.k.index_select(0, index), self.v.index_select(0, index))

    def since(self, first: int) -> "KV":
        """Without the first places, once no row needs them."""
        return self if first == 0 else KV(self.k[:, :, first:], self.v[:, :, first:])


@dataclass(frozen=True, eq=False)
class Past:
    """What every layer keeps of N rows so far; rows end together on the right, and may begin at different places."""

    layers: tuple[KV, ...]
    starts: Tensor | None = None  # (N,), where rows are of different age

    @property
    def num_keys(self) -> int:
        return self.layers[0].num_keys

    def select(self, index: Tensor) -> "Past":
        layers = tuple(kv.select(index) for kv in self.layers)
        if self.starts is None:
            return Past(layers)
        starts = self.starts[index]
        oldest = int(starts.min())
        return Past(tuple(kv.since(oldest) for kv in layers), starts - oldest if (starts > oldest).any() else None)
