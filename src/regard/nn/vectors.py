"""The front of sequences of vectors, such as what sensors measure."""

from typing import Any

from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.front import Front
from regard.shapes import Padded


class Vectors(Front):
    """A linear map of each step (B, T, F) -> (B, T, C)."""

    def __init__(self, config: Any, width: int, **parts: Any) -> None:
        super().__init__(**parts)
        self.map = nn.Linear(config.features, width)

    def vectors(self, batch: Padded) -> Tensor:
        if batch.values.shape[2:] != (self.map.in_features,):
            shape = tuple(batch.values.shape)
            raise UserError(f"vectors of shape {shape}; this model reads (sequences, steps, {self.map.in_features})")
        return self.map(batch.values.to(self.map.weight.dtype))
