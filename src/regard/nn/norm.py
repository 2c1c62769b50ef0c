"""Normalisation, and where in a residual it stands."""

from collections.abc import Callable

from torch import Tensor, nn

from regard.attention.site import Site
from regard.errors import UserError
from regard.nn.config import Placement


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


NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,  # [Ba+ 2016]
    "rms": nn.RMSNorm,  # [Zhang+ 2019]
}
