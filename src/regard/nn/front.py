"""Front: what turns a batch of a modality (text, vectors and more) into the steps that a trunk takes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.position import Position
from regard.attention.site import Site
from regard.errors import UserError
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class Steps:
    """Vectors x (B, T, C), which of them may be attended to, where they stand (1|B, T), and how many count (B,)."""

    x: Tensor
    mask: Mask
    places: Tensor
    lengths: Tensor
    state: Tensor | None = None
    """Of recurrent layers after the last step: (B, layers, directions, vectors, width)."""

    @staticmethod
    def of(x: Tensor, lengths: Tensor) -> "Steps":
        """In one row, with padding on the right."""
        return Steps(x, Mask.padding(lengths), torch.arange(x.shape[1], device=x.device)[None], lengths)

    @property
    def mean(self) -> Tensor:
        """Of each row's vectors (B, C)."""
        counted = torch.arange(self.x.shape[1], device=self.x.device)[None] < self.lengths[:, None]
        return (self.x * counted[..., None]).sum(1) / self.lengths[:, None]


class Front(nn.Module):
    """A modality says what the `vectors` of a batch are; they get their position, are normed where asked (as in BART
    and BERT), and dropped out."""

    def __init__(self, position: Position | None = None, norm: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.position = position or Position()
        self.norm = norm or nn.Identity()
        self.dropout = dropout

    def vectors(self, batch: Padded) -> Tensor:
        """(B, T, C)."""
        raise NotImplementedError  # abstract

    def forward(self, batch: Padded, site: Site = Site()) -> Steps:
        shortest, longest = torch.aminmax(batch.lengths)
        if shortest < 1 or longest > batch.values.shape[1]:
            lengths = f"{int(shortest)} to {int(longest)}"
            raise UserError(f"source lengths {lengths} in rows of {batch.values.shape[1]}; use 1 to that")
        steps = Steps.of(self.vectors(batch), batch.lengths)
        return replace(steps, x=self.placed(steps.x, steps.places, batch.lengths, site))

    def placed(self, x: Tensor, places: Tensor | None, lengths: Tensor | None, site: Site) -> Tensor:
        """Vectors (B, T, C) at places (1|B, T), if they are told, of sequences whose lengths (B,) may be unknown."""
        if places is not None:
            x = self.position.embed(x, places, lengths)
        x = self.norm(x) if site.trace is None else site.trace.words(site.path, self.norm(x))
        return site.dropout(x, self.dropout)
