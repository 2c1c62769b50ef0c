"""A softmax over some of the words, for training with many of them [Jean+ 2015, section 3]."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.nn.embed import OutputHead
from regard.rng import Key


class SomeWords:
    """The words of a batch, and others drawn as often as the text has them.

    A word that is seldom among them counts for the times that it is not, divided by how probable it was to be there, so
    that in expectation the sum over some is the sum over all [Bengio+ 2008, eq. 9]; the right one is always there.
    """

    def __init__(self, ids: NDArray[Any], vocabulary: int, count: int) -> None:
        seen = np.bincount(ids, minlength=vocabulary) + 1.0
        self.share, self.count = seen / seen.sum(), count
        self.reached = self.share.cumsum()

    def lost(self, head: OutputHead, x: Tensor, wanted: Tensor, key: Key) -> Tensor:
        """Nats lost on wanted words (N,), told from x (N, C)."""
        right = wanted.numpy()
        drawn = self.reached.searchsorted(key.generator().random(self.count)).clip(max=len(self.share) - 1)
        words = np.unique(np.concatenate((right, drawn)))
        draws = self.count + len(right) - 1  # besides the right one
        there = -np.expm1(draws * np.log1p(-self.share[words]))
        bias = None if head.bias is None else head.bias[words]
        logits, place = F.linear(x, head.table[words], bias), torch.from_numpy(words.searchsorted(right))[:, None]
        rest = logits - torch.from_numpy(np.log(there)).to(x.dtype)
        return F.cross_entropy(rest.scatter(1, place, logits.gather(1, place)), place[:, 0], reduction="sum")
