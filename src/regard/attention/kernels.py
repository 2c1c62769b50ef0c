"""attend(): the one place where attention is computed, and the kernels that compute it.

    out[t] = sum_s softmax_s(score(q[t], k[s]) + bias[t, s]) v[s]

over the keys that the mask allows. The lectures' 1/N before the sum is dropped: softmax weights already sum to one.
Every kernel equals `reference`; one that cannot do what is asked says why, and only "auto" chooses another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from regard.attention.mask import Causal, Grid, Mask, Padding
from regard.attention.position import Bias, TableBias
from regard.attention.score import ScaledDot, Score
from regard.attention.site import dropout as drop
from regard.errors import RefusalError, UserError
from regard.rng import Key

X = TypeVar("X")
SCALED_DOT = ScaledDot()
LARGE = 1 << 26  # numbers, 256 MB of them, that are not made at once
SPARSE = 4  # times fewer pairs than all, from which on blocks that are masked are worth leaving out


@dataclass(frozen=True, eq=False)
class Attended:
    """The result of looking, and where it looked: out (B, H, T, E), weights (B, H, T, S)."""

    out: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class Problem:
    """What a kernel is asked, once it is `ready`: q and k after the score's own work on each side."""

    q: Tensor
    k: Tensor
    v: Tensor
    score: Score = SCALED_DOT
    mask: Mask = Mask()
    bias: Bias | None = None
    dropout: float = 0.0
    key: Key | None = None

    @property
    def size(self) -> tuple[int, int, int, int]:
        """B, H, T, S."""
        return self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2]

    def allowed(self) -> Tensor | None:
        """The mask for all queries and keys, broadcastable to their scores."""
        return _fitting(self.mask.allowed(Grid.whole(*self.size[2:], self.q.device)), self.size, "mask")

    def block(self, rows: slice, columns: slice) -> bool | Tensor:
        """The same for a block; or whether all of it is allowed, or nothing."""
        grid = Grid.whole(*self.size[2:], self.q.device).block(rows, columns)
        return _fitting(self.mask.block(grid), (*self.size[:2], len(grid.rows), len(grid.columns)), "mask")

    def ready(self, prepared: bool) -> "Problem":
        """Checked, and after the score's own work; `prepared` keys have been through it already."""
        q, k, v = self.q, self.k, self.v
        shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        if not q.dim() == k.dim() == v.dim() == 4:
            raise UserError(f"attention needs 4 axes (batch, heads, steps, width), not {shapes}; add a heads axis of 1")
        if 0 in (*q.shape, *k.shape, *v.shape):
            raise UserError(f"attention over an empty sequence: {shapes}; give every axis at least 1")
        if not q.shape[0] == k.shape[0] == v.shape[0]:
            raise UserError(f"batches differ: {shapes}; axis 0 must be the same in all three")
        if k.shape[1:3] != v.shape[1:3]:
            raise UserError(f"keys and values differ in heads or steps: {shapes}; each key needs its value")
        if q.shape[1] % k.shape[1]:
            raise UserError(f"{q.shape[1]} query heads cannot share {k.shape[1]} key/value heads evenly; use a divisor")
        if not prepared:
            self.score.check(q.shape[-1], k.shape[-1])
            k = self.score.keys(k)
        if not isinstance(self.mask, Mask):
            raise UserError(f"mask is a {type(self.mask).__name__}; wrap a 0/1 tensor as Mask.matrix(tensor)")
        if isinstance(self.bias, TableBias):
            _fitting(self.bias.table, (*q.shape[:3], k.shape[2]), "bias")
        if self.dropout > 0.0 and self.key is None:
            raise UserError(f"dropout {self.dropout} without a key; pass key=Key(seed), or dropout=0.0 when evaluating")
        return Problem(self.score.queries(q), k, v, self.score, self.mask, self.bias, self.dropout, self.key)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = SCALED_DOT,
    mask: Mask = Mask(),
    bias: Tensor | Bias | None = None,
    dropout: float = 0.0,
    key: Key | None = None,
    kernel: str = "auto",
    prepared: bool = False,
) -> Tensor:
    """Queries (B, H, T, Dq) look at keys (B, G, S, Dk) and bring back values (B, G, S, E) -> (B, H, T, E).

    `prepared`: k has been through `score.keys` already. A query that may attend to nothing brings back zeros.
    """
    problem = Problem(q, k, v, score, mask, _bias(bias), dropout, key).ready(prepared)
    if kernel == "auto":
        return KERNELS[_choose(problem)](problem)
    if kernel not in KERNELS:
        raise UserError(f"there is no kernel {kernel!r}; choose auto, {', '.join(KERNELS)}")
    chosen = KERNELS[kernel]
    if reason := chosen.refuses(problem):
        raise RefusalError(f"kernel {kernel!r} cannot do this: {reason}; use kernel='auto'")
    return chosen(problem)


def attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | Bias | None = None, prepared: bool = False, **options: Any
) -> Attended:
    """As `attend`, with the weights (before dropout), by the reference kernel; `options` are the others of `attend`."""
    return Reference.look(Problem(q, k, v, bias=_bias(bias), **options).ready(prepared))


class Kernel:
    """A way to compute attention, equal to `reference`, output and gradient."""

    def refuses(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem) -> Tensor:
        raise NotImplementedError  # abstract


class Reference(Kernel):
    """The formula as it stands; every score, bias and dropout."""

    def __call__(self, problem: Problem) -> Tensor:
        return self.look(problem).out

    @staticmethod
    def look(problem: Problem) -> Attended:
        heads = problem.q.shape[1]
        scores = problem.score.pairs(problem.q, each_head(problem.k, heads))
        if problem.bias is not None:
            scores = scores + problem.bias.scores()
        if (allowed := problem.allowed()) is not None:  # to fill scores directly takes many times as long
            scores = scores + torch.zeros_like(allowed, dtype=scores.dtype).masked_fill(~allowed, -torch.inf)
        weights = scores.softmax(-1)
        if problem.bias is not None or allowed is not None:
            nothing = scores.detach().amax(-1, keepdim=True) == -torch.inf
            if nothing.any():  # a row of -inf alone has no softmax: zero its weights, and keep NaN out of its gradient
                weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
        kept = weights
        if problem.dropout > 0.0:
            assert problem.key is not None
            kept = drop(weights, problem.dropout, problem.key)
        out = kept @ each_head(problem.v, heads)
        brings = problem.bias is not None and problem.bias.brings_values
        return Attended(out + problem.bias.values(weights) if brings and problem.bias else out, weights)


class Fused(Kernel):
    """PyTorch's scaled_dot_product_attention."""

    def refuses(self, problem: Problem) -> str | None:
        if problem.score.scale(problem.q.shape[-1]) is None:
            return f"the {type(problem.score).__name__} score is not a dot product"
        if problem.dropout > 0.0:
            return "it drops no weights by counted randomness"
        if problem.bias is not None and problem.bias.brings_values:
            return "it never holds the weights through which these positions bring back values"
        if problem.v.shape[-1] != problem.k.shape[-1]:
            return f"values of width {problem.v.shape[-1]} differ from keys of width {problem.k.shape[-1]}"
        return None

    def __call__(self, problem: Problem) -> Tensor:
        q, k, v = problem.q, problem.k, problem.v
        # PyTorch's is_causal aligns top-left; ours bottom-right: the same only for as many queries as keys.
        causal = type(problem.mask) is Causal and problem.bias is None and q.shape[2] == k.shape[2]
        mask = None if causal else problem.allowed()
        if problem.bias is not None:
            bias = problem.bias.scores()
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        scale, grouped = problem.score.scale(q.shape[-1]), k.shape[1] != q.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
        )


class Chunked(Kernel):
    """Online softmax over blocks of keys [Milakov+ 2018; Rabe+ 2021]: memory linear in S, forward and backward."""

    rows = 128  # queries and keys of a block, at most
    columns = 256
    numbers = 1 << 24  # that a block's pairs may hold, about

    def refuses(self, problem: Problem) -> str | None:
        return "it never holds the weights that dropout would drop" if problem.dropout > 0.0 else None

    def __call__(self, problem: Problem) -> Tensor:
        batch, heads, _, num_keys = problem.size
        width = 1 if problem.score.scale(1) is not None else problem.q.shape[-1]  # a vector for each pair, or a number
        fitting = self.numbers // (batch * heads * min(self.columns, num_keys) * width)
        # Recomputed in backward: a block of queries is all that is ever held.
        recomputed = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        outs, step = [], max(1, min(self.rows, fitting))
        # Split and not sliced: the gradient of a slice is as large as the whole.
        keys, values = problem.k.split(self.columns, 2), problem.v.split(self.columns, 2)
        for i, q in enumerate(problem.q.split(step, 2)):
            part = partial(self._attend_rows, problem, slice(i * step, (i + 1) * step), q, keys, values)
            outs.append(recomputed(part) if torch.is_grad_enabled() else part())
        return torch.cat(outs, dim=2)

    def _attend_rows(
        self, problem: Problem, rows: slice, q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]
    ) -> Tensor:
        heads, bias = q.shape[1], None if problem.bias is None else problem.bias.of(rows)
        largest = q.new_full((*q.shape[:3], 1), -torch.inf)
        total = q.new_zeros((*q.shape[:3], 1))
        out = q.new_zeros((*q.shape[:3], problem.v.shape[-1]))
        places = [slice(i * self.columns, (i + 1) * self.columns) for i in range(len(keys))]
        blocks = [(i, allowed) for i, at in enumerate(places) if (allowed := problem.block(rows, at)) is not False]
        nothing = [(0, torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=q.device))]  # zeros, with a gradient
        for i, allowed in blocks or nothing:
            k, v = each_head(keys[i], heads), each_head(values[i], heads)
            scores = problem.score.pairs(q, k)
            if bias is not None:
                scores = scores + bias.scores(places[i])
            if isinstance(allowed, Tensor):
                scores = scores.masked_fill(~allowed, -torch.inf)
            new_largest = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
            shift = new_largest.masked_fill(new_largest == -torch.inf, 0.0)  # nothing allowed so far
            weights = torch.exp(scores - shift)
            rescale = torch.exp(largest - shift)
            total = total * rescale + weights.sum(-1, keepdim=True)
            out = out * rescale + weights @ v
            if bias is not None and bias.brings_values:
                out = out + bias.values(weights, places[i])
            largest = new_largest
        return out / total.masked_fill(total == 0.0, 1.0)


def each_head(x: Tensor, heads: int) -> Tensor:
    """Key/value heads repeated so that there is one for each query head: (B, G, S, D) -> (B, H, S, D)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _choose(problem: Problem) -> str:
    """Fused where it can; else chunked where all pairs at once would take more than about 256 MB."""
    batch, heads, num_queries, num_keys = problem.size
    chunks = KERNELS["chunked"].refuses(problem) is None
    if KERNELS["fused"].refuses(problem) is None:
        # It takes a mask or a bias whole, and computes pairs that are masked.
        asked = problem.bias is not None or type(problem.mask) not in (Mask, Causal, Padding)
        whole = num_queries * num_keys * (1 if problem.bias is None else heads) * asked
        sparse = whole > LARGE >> 4 and problem.mask.reach(num_keys) * SPARSE < num_keys
        if chunks and (sparse or whole >= LARGE) and not isinstance(problem.bias, TableBias):
            return "chunked"
        # One query is a row times a matrix, for which the fused kernel's set-up costs more than it saves.
        return "fused" if num_queries > 1 else "reference"
    pairs = batch * heads * num_queries * num_keys * problem.q.shape[-1]
    return "chunked" if pairs > LARGE and chunks else "reference"


def _bias(bias: Tensor | Bias | None) -> Bias | None:
    return TableBias(bias) if isinstance(bias, Tensor) else bias


def _fitting(x: X, size: tuple[int, ...], what: str) -> X:
    if isinstance(x, Tensor) and (
        x.dim() != len(size) or any(a not in (1, b) for a, b in zip(x.shape, size, strict=True))
    ):
        raise UserError(
            f"{what} of shape {tuple(x.shape)} does not fit scores of {size} (batch, heads, queries, keys); "
            "each axis must be 1 or that size"
        )
    return x


KERNELS: dict[str, Kernel] = {"reference": Reference(), "fused": Fused(), "chunked": Chunked()}
