"""Regard: sequence-to-sequence and attention models on the machine you have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.look.model import Model

__version__ = "0.1.0"


def load(folder: str | Path) -> Model:
    """A trained model, ready to be called: `regard.load("runs/en-de")("I ate an apple")`."""
    from regard.look.model import Model  # here, so that `import regard` costs no torch

    return Model(Path(folder))
