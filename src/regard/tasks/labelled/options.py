"""What a model of labelled examples can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.tasks.options import Options, option


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Options):
    """Of `regard run`."""

    num_best: int = option(1, "Labels for each line, best first.", "nbest")


@dataclass(frozen=True, kw_only=True)
class ExamplesEvaluation(Options):
    """Of `regard evaluate`."""

    data: str | None = option(None, "Labelled examples: a file, or a corpus such as glue/RTE/dev.", kind=str)
    output: Path | None = option(None, "Also write the answers here.", kind=Path)

    def __post_init__(self) -> None:
        if self.data is None:
            raise UserError("give labelled examples as data")
