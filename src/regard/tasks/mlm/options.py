"""What an encoder can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.tasks.options import Options, option


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(Options):
    """Of `regard run`."""

    num_best: int = option(1, "Tokens for each [MASK], or lines of --near, best first.", "nbest")
    vectors: bool = option(False, "A vector for each line.")
    near: Path | None = option(None, "The nearest lines of this file, with cosines.", kind=Path)
