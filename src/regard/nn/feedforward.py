"""The feed-forward layer: each step thinks for itself about what it has seen."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.site import Site
from regard.errors import UserError


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
