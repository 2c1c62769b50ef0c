"""Encodings: a vector for each step of a sequence, absolute, to be added somewhere.

From positions (1|B, T) to vectors (1|B, T, C), with `lengths` (B,) for those that count from both ends.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.config import PositionConfig
from regard.errors import UserError


class Sinusoid(nn.Module):
    """sin(w_i t), cos(w_i t) with w_i = base^(-2i/C), i from 0 [Vaswani+ 2017, section 3.5].

    Two layouts are about: sines and cosines by turns (the paper), or all sines before all cosines (tensor2tensor).
    One deck counts i from 1; the paper and this count from 0.
    """

    def __init__(self, width: int, layout: str = "interleaved", base: float = 10000.0) -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"sinusoids come in pairs, so width {width} must be even; try {width + 1}")
        self.angles = wavelengths(width, base)
        index = torch.arange(width, device="cpu")
        pairs = index.view(-1, 2).T if layout == "interleaved" else index.view(2, -1)
        self.sines, self.cosines = pairs  # where in the vector each kind stands

    def forward(self, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        turns = positions[..., None] * self.angles.to(positions.device)  # (1|B, T) -> (1|B, T, C/2)
        vectors = turns.new_empty((*positions.shape, 2 * len(self.angles)))
        vectors[..., self.sines], vectors[..., self.cosines] = turns.sin(), turns.cos()
        return vectors

    def shift(self, steps: float) -> Tensor:
        """M (C, C) with P(t + steps) = M P(t) for every t: each pair turned by its own angle."""
        turns = self.angles * steps
        matrix = turns.new_zeros(2 * len(turns), 2 * len(turns))
        matrix[self.sines, self.sines] = matrix[self.cosines, self.cosines] = turns.cos()
        matrix[self.sines, self.cosines] = turns.sin()
        matrix[self.cosines, self.sines] = -turns.sin()
        return matrix


class Learned(nn.Module):
    """A table of one vector for each step up to a maximum [Gehring+ 2017; Devlin+ 2019]."""

    def __init__(self, width: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(max_length, width), a=1))

    def forward(self, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        last, size = int(positions.max()), len(self.table)
        if last >= size:
            raise UserError(
                f"a sequence of {last + 1} steps is longer than the {size} learned positions; shorten it, "
                f"train with max_length {last + 1}, or use sinusoid, rotary or alibi positions"
            )
        return self.table[positions.clamp(min=0)]  # below 0 is padding on the left, which nothing looks at


class Index(nn.Module):
    """The step's number itself: unbounded, the first naive option of the lectures."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        return positions.double()[..., None].expand(*positions.shape, self.width)


class Fraction(Index):
    """The step as a share of the sentence, t / (n - 1): the same share in sentences of different length is another
    distance, the second naive option of the lectures."""

    def forward(self, positions: Tensor, lengths: Tensor | None = None) -> Tensor:
        if lengths is None:
            raise UserError(
                "fraction positions need the length of the whole sequence, which a decoder does not know yet; "
                "use them in an encoder, or choose sinusoid positions"
            )
        return super().forward(positions / (lengths[:, None] - 1).clamp(min=1))


def wavelengths(width: int, base: float) -> Tensor:
    """w_i = base^(-2i/width), radians per step (width/2,); float64, as float32 angles are off by 1e-4 at step 1000."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


ENCODINGS: dict[str, Callable[[PositionConfig, int], nn.Module]] = {
    "sinusoid": lambda config, width: Sinusoid(width, config.layout, config.base),
    "learned": lambda config, width: Learned(width, config.max_length or 1),
    "index": lambda config, width: Index(width),
    "fraction": lambda config, width: Fraction(width),
}
