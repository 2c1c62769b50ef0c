"""Models as the command line wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.cli.lines import warn
from regard.decode.config import search_for
from regard.errors import UserError
from regard.exchange.folders import load_any
from regard.look.model import ready


def ready_model(folder: Path, asked: dict[str, Any], *, tag: str | None, **options: Any) -> Any:
    """What is in a folder, ready to run as it was asked."""
    begun, best, ended = ((folder / name).exists() for name in ("plan.json", "config.json", "README.md"))
    if begun and best and not ended:
        warn(f"the training of {folder} has not ended; this is its best model so far")
    loaded = load_any(folder)
    if tag is not None and loaded.task != "translation":
        raise UserError("--tag is for translators of several directions; drop it")
    tagged = {"tag": tag} if tag is not None else {}
    return ready(loaded, search=search_for(loaded.search, **asked), **options, **tagged)
