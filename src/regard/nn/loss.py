"""Cross-entropy of the output layer's words: over all in chunks, so that never all logits are held, or over some."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.nn.embed import OutputHead
from regard.rng import Key

HELD = 1 << 22  # logits at once, about: 16 megabytes; fewer make products too small to be fast
SAFE = 80.0  # nats; beyond 87, float32 has no normal number for the probability


def cross_entropy(head: OutputHead, x: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
    """Nats lost on wanted words (N,), told from x (N, C), in all; a share `smoothing` of each is wanted of every word
    alike [Szegedy+ 2016, section 7]."""
    if not torch.is_grad_enabled():
        return lost(head, x, wanted, smoothing).sum()
    bias = x.new_zeros(()) if head.bias is None else head.bias
    total: Tensor = _CrossEntropy.apply(x, head.table, bias, wanted, smoothing)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def lost(head: OutputHead, x: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
    """Nats lost on each wanted word (N,), without a gradient."""
    bias = x.new_zeros(()) if head.bias is None else head.bias
    parts = [nats for _, nats, _ in _chunks(x, head.table, bias, wanted, smoothing)]
    return torch.cat(parts) if parts else x.new_zeros(0)


class _CrossEntropy(torch.autograd.Function):
    """The gradient is made on the way, from probabilities that are then forgotten.

    d/dlogits = p - (1 - smoothing) [wanted] - smoothing / V, whose last part is the same for all logits, so it goes
    into the products as a mean of the table, and a sum of x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, bias: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        of_x, of_table, of_bias = torch.empty_like(x), torch.zeros_like(table), torch.zeros_like(bias)
        total = x.new_zeros(())
        for rows, nats, p in _chunks(x, table, bias, wanted, smoothing):
            total += nats.sum()
            p.scatter_add_(1, wanted[rows, None], p.new_full((len(p), 1), smoothing - 1.0))
            torch.mm(p, table, out=of_x[rows])
            of_table.addmm_(p.T, x[rows])
            if bias.dim():
                of_bias += p.sum(0)
        if smoothing:
            share = smoothing / len(table)
            of_x -= share * table.sum(0)
            of_table -= share * x.sum(0)
            of_bias -= share * len(x) * bias.dim()
        ctx.save_for_backward(of_x, of_table, of_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return *(gradients[0] * part for part in ctx.saved_tensors), None, None


def _chunks(
    x: Tensor, table: Tensor, bias: Tensor, wanted: Tensor, smoothing: float
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Rows of x, what is lost on each, and the probabilities of all words there, which may be written over."""
    size = max(1, HELD // len(table))
    mean_word, mean_bias = table.mean(0), bias.mean()
    for start in range(0, len(x), size):
        rows = slice(start, min(start + size, len(x)))
        logits = torch.addmm(bias, x[rows], table.T) if bias.dim() else x[rows] @ table.T
        right = logits.gather(1, wanted[rows, None])[:, 0]
        p = torch.softmax(logits, -1)
        nats = -p.gather(1, wanted[rows, None])[:, 0].log()
        if nats.amax() > SAFE:  # a probability that is nearly 0 says little; from the largest, log sum exp is safe
            nats = logits.amax(-1) - p.amax(-1).log() - right
        if smoothing:
            nats += smoothing * (right - x[rows] @ mean_word - mean_bias)
        yield rows, nats, p


class SomeWords:
    """A softmax over the words of a batch, and others drawn as often as the text has them [Jean+ 2015, section 3].

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
