"""What attention keeps of a memory: keys and values, ready to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, eq=False)
class KV:
    """Keys (B, G, S, Dk) that a score has worked on, and values (B, G, S, E)."""

    k: Tensor
    v: Tensor

    @property
    def num_keys(self) -> int:
        return self.k.shape[2]

    def append(self, newer: KV) -> KV:
        """Grown along S; sentences end together on the right, so one `cat` serves rows of any age."""
        if self.num_keys == 0:
            return newer
        return KV(torch.cat((self.k, newer.k), 2), torch.cat((self.v, newer.v), 2))

    def select(self, index: Tensor) -> KV:
        return KV(self.k.index_select(0, index), self.v.index_select(0, index))

    def join(self, other: KV, fill: Literal["left", "right"]) -> KV:
        """The rows of both, the shorter filled up on one side: left for what grows, right for a finished memory."""
        longest = max(self.num_keys, other.num_keys)
        k, v = (
            torch.cat([fill_up(x, longest, 2, fill) for x in pair]) for pair in ((self.k, other.k), (self.v, other.v))
        )
        return KV(k, v)

    def since(self, first: int) -> KV:
        """Without the first places, once no row needs them."""
        return self if first == 0 else KV(self.k[:, :, first:], self.v[:, :, first:])


def fill_up(x: Tensor, size: int, axis: int, side: Literal["left", "right"]) -> Tensor:
    """Zeros on one side of an axis until it has `size` places."""
    missing = size - x.shape[axis]
    if missing == 0:
        return x
    pads = [0, 0] * (x.dim() - axis)
    pads[-2 if side == "left" else -1] = missing
    return F.pad(x, pads)
