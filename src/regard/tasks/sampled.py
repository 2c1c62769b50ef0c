"""A softmax over some of the words, for training with many of them [Jean+ 2015, section 3]."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.rng import Key


class SomeWords:
    """The words of a batch, and others drawn as often as the text has them.

    A word that seldom is among them counts for the times that it is not: its score is lowered by the logarithm of how
    probable it is to be there, so that in expectation the sum over some is the sum over all.
    """

    def __init__(self, ids: NDArray[Any], vocabulary: int, count: int) -> None:
        seen = np.bincount(ids, minlength=vocabulary) + 1.0
        self.share, self.count = seen / seen.sum(), count
        self.reached = self.share.cumsum()

    def lost(self, head: nn.Module, x: Tensor, wanted: Tensor, key: Key) -> Tensor:
        """Nats lost on wanted words (N,), told from x (N, C)."""
        right = wanted.numpy()
        drawn = self.reached.searchsorted(key.generator().random(self.count)).clip(max=len(self.share) - 1)
        words = np.unique(np.concatenate((right, drawn)))
        there = -np.expm1((self.count + len(right)) * np.log1p(-self.share[words]))  # of any of so many draws
        logits = head(x, torch.from_numpy(words)) - torch.from_numpy(np.log(there)).to(x.dtype)
        return F.cross_entropy(logits, torch.from_numpy(words.searchsorted(right)), reduction="sum")
