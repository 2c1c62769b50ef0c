"""The front of each modality: of text an Embedding, of others by the kind of their settings."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.embed import Embedding
from regard.nn.front import Front
from regard.shapes import Padded


class Vectors(Front):
    """A linear map of each step (B, T, F) -> (B, T, C), such as what sensors measure."""

    def __init__(self, config: Any, width: int, **parts: Any) -> None:
        super().__init__(**parts)
        self.map = nn.Linear(config.features, width)

    def vectors(self, batch: Padded) -> Tensor:
        if batch.values.shape[2:] != (self.map.in_features,):
            shape = tuple(batch.values.shape)
            raise UserError(f"vectors of shape {shape}; this model reads (sequences, steps, {self.map.in_features})")
        return self.map(batch.values)


def front_of(settings: Any, width: int, table: nn.Parameter | None, parts: dict[str, Any], **text: Any) -> Front:
    """From a batch to steps (B, T, C): of text, which has a `table` and no settings here, or of another modality;
    `parts` are position, norm and dropout."""
    if settings is None:
        assert table is not None, "text needs a table"
        return Embedding(table, **parts, **text)
    return FRONTS[settings.kind](settings, width, **parts)


FRONTS: dict[str, Callable[..., Front]] = {"vectors": Vectors}
