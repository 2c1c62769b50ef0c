"""The parts of a block beside attention: the feed-forward layer, where each step thinks for itself about what it has
seen, normalisation, and where in a residual it stands."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.site import Site
from regard.errors import UserError
from regard.nn.config import Placement


class FeedForward(nn.Module):
    """W2 f(W1 x) [Vaswani+ 2017, eq. 2], or gated, W2 (f(W1 x) * W3 x) [Shazeer 2020, eq. 6]."""

    def __init__(self, width: int, hidden: int, activation: str, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(f"there is no activation {activation!r}; choose {', '.join(ACTIVATIONS)}")
        self.function, gated = ACTIVATIONS[activation]
        self.up = nn.Linear(width, hidden, bias=bias)
        self.gate = nn.Linear(width, hidden, bias=bias) if gated else None
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = dropout

    def forward(self, x: Tensor, site: Site = Site()) -> Tensor:
        h = self.function(self.up(x)) if self.gate is None else self.function(self.gate(x)) * self.up(x)
        return self.down(site.dropout(h, self.dropout))


class Residual(nn.Module):
    """x + f(x) around any sub-layer f, with its norm: `enter` gives what f sees, `leave` takes what f said.

    pre: x + f(norm x) [Xiong+ 2020]; post: norm(x + f(x)) [Vaswani+ 2017, section 3.1]; none: x + f(x).
    """

    def __init__(self, width: int, norm: str, eps: float, placement: Placement, dropout: float) -> None:
        super().__init__()
        self.norm = nn.Identity() if placement == "none" else make_norm(norm, width, eps)
        self.placement = placement
        self.dropout = dropout

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.placement == "pre" else x

    def leave(self, x: Tensor, said: Tensor, site: Site) -> Tensor:
        x = x + site.dropout(said, self.dropout)
        return self.norm(x) if self.placement == "post" else x


def make_norm(name: str, width: int, eps: float) -> nn.Module:
    if name not in NORMS:
        raise UserError(f"there is no norm {name!r}; choose {', '.join(NORMS)}")
    return NORMS[name](width, eps=eps)


# What is applied between the layers, and whether a second branch is gated by it.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "relu": (F.relu, False),
    "gelu": (F.gelu, False),
    "gelu_tanh": (partial(F.gelu, approximate="tanh"), False),  # GPT-2's [Hendrycks+ 2016, section 2]
    "silu": (F.silu, False),
    "reglu": (F.relu, True),
    "geglu": (F.gelu, True),
    "swiglu": (F.silu, True),
}

NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,  # [Ba+ 2016]
    "rms": nn.RMSNorm,  # [Zhang+ 2019]
}
