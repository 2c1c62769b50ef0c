"""Scores: how well a key answers a query.

A score does its key-side work once (`keys`), its query-side work once (`queries`), and then compares every pair.
What `keys` returns can be kept in a cache. Parameters are shared by the heads: projections before the score differ
from head to head already.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError


class Score(nn.Module):
    """A function of a query and a key, of the two `widths` it was made for, or of any that are equal; the base class
    compares by dot product."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.widths = widths

    def keys(self, x: Tensor) -> Tensor:
        """Key-side work, done once per source; `queries` is query-side work."""
        return x

    queries = keys

    def scale(self, width: int) -> float | None:
        """The factor of the dot product that `pairs` amounts to, for kernels that know no other; else None."""
        return None

    def pairs(self, q: Tensor, k: Tensor) -> Tensor:
        """(B, H, T, D'), (B, H, S, D') -> (B, H, T, S), after `queries` and `keys`."""
        scale = self.scale(q.shape[-1])
        assert scale is not None, "a score that is no dot product must say how to compare pairs"
        return (q * scale) @ k.transpose(-1, -2)

    def check(self, query_width: int, key_width: int) -> None:
        """Raise if queries and keys of these widths cannot be compared."""
        if self.widths and (query_width, key_width) != self.widths:
            raise UserError(
                f"{type(self).__name__} was made for queries of {self.widths[0]} and keys of {self.widths[1]}, "
                f"not {query_width} and {key_width}; make it with those two widths"
            )
        if not self.widths and query_width != key_width:
            raise UserError(
                f"{type(self).__name__} compares widths that are equal, not queries of {query_width} and keys of "
                f"{key_width}; project one of them, or use the bilinear, additive or mlp score"
            )


class Dot(Score):
    """q · k [Luong+ 2015, eq. 8]."""

    def scale(self, width: int) -> float:
        return 1.0


class ScaledDot(Score):
    """q · k / sqrt(D), so that the softmax does not saturate as D grows [Vaswani+ 2017, eq. 1]."""

    def scale(self, width: int) -> float:
        return float(width**-0.5)


class Bilinear(Score):
    """q W k [Luong+ 2015, eq. 8, "general"]; W k is key-side work, and the rest a dot product."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.to_query_space = nn.Linear(key_width, query_width, bias=False)

    def keys(self, k: Tensor) -> Tensor:
        return self.to_query_space(k)

    def scale(self, width: int) -> float:
        return 1.0


class MLP(Score):
    """MLP([q; k]) of any depth; its first layer splits into a query part and a key part, each computed once.

    The last layer has no bias: softmax would not see it.
    """

    def __init__(self, query_width: int, key_width: int, hidden: Sequence[int] = ()) -> None:
        super().__init__(query_width, key_width)
        first, *rest = hidden or (query_width,)
        self.from_query = nn.Linear(query_width, first)
        self.from_key = nn.Linear(key_width, first, bias=False)
        widths = [first, *rest]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.to_score = nn.Linear(widths[-1], 1, bias=False)

    def keys(self, k: Tensor) -> Tensor:
        return self.from_key(k)

    def queries(self, q: Tensor) -> Tensor:
        return self.from_query(q)

    def pairs(self, q: Tensor, k: Tensor) -> Tensor:
        # tanh(u) = 2 sigmoid(2 u) - 1, of which PyTorch's tanh takes six times the time; the next layer does the rest.
        x = torch.add(2 * q.unsqueeze(-2), k.unsqueeze(-3), alpha=2).sigmoid_()  # -> (B, H, T, S, A)
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            x = F.linear(x, 4 * layer.weight, 2 * (layer.bias - layer.weight.sum(1))).sigmoid_()
        weight = self.to_score.weight
        return (F.linear(x, 2 * weight) - weight.sum()).squeeze(-1)


class Additive(MLP):
    """v · tanh(Wq q + Wk k) [Bahdanau+ 2015, appendix A.1.2]: the MLP of one hidden layer without bias."""

    def __init__(self, query_width: int, key_width: int, hidden: Sequence[int] = ()) -> None:
        super().__init__(query_width, key_width, hidden)
        if len(hidden) > 1:
            raise UserError(f"additive score with hidden layers {tuple(hidden)}; one at most, or use score mlp")
        self.from_query = nn.Linear(query_width, self.from_query.out_features, bias=False)


# Each makes a score for a width of queries, a width of keys, and hidden widths where it has any.
SCORES: dict[str, Callable[[int, int, Sequence[int]], Score]] = {
    "dot": lambda query_width, key_width, hidden: Dot(),
    "scaled_dot": lambda query_width, key_width, hidden: ScaledDot(),
    "bilinear": lambda query_width, key_width, hidden: Bilinear(query_width, key_width),
    "additive": Additive,
    "mlp": MLP,
}
