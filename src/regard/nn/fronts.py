"""The front of each modality: of text an Embedding, of others by the kind of their settings."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.nn.embed import Embedding
from regard.nn.front import Front
from regard.nn.vectors import Vectors


def front_of(settings: Any, width: int, table: nn.Parameter | None, parts: dict[str, Any], **text: Any) -> Front:
    """From a batch to steps (B, T, C): of text, which has a `table` and no settings here, or of another modality;
    `parts` are position, norm and dropout."""
    if settings is None:
        assert table is not None, "text needs a table"
        return Embedding(table, **parts, **text)
    return FRONTS[settings.kind](settings, width, **parts)


FRONTS: dict[str, Callable[..., Front]] = {"vectors": Vectors}
