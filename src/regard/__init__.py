"""Regard: sequence-to-sequence and attention models on the machine you have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.2.0.dev0"


def load(folder: str | Path, **options: Any) -> Any:
    """A model, ready to be called: `regard.load("runs/en-de")("I ate an apple")`.

    A folder that Regard wrote, or one in Hugging Face's layout.
    """
    from regard.exchange.folders import load_any  # here, so that `import regard` costs no torch
    from regard.look.model import ready

    return ready(load_any(Path(folder)), **options)
