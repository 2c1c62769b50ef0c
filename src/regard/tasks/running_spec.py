"""The TaskSpec of a task of running text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.tasks.options import Options, option
from regard.tasks.spec import TaskSpec, lazy


@dataclass(frozen=True, kw_only=True)
class TextEvaluation(Options):
    """Of `regard evaluate`, of models of running text."""

    text: Path | None = option(None, "A text that the model has not seen.", kind=Path)

    def __post_init__(self) -> None:
        if self.text is None:
            raise UserError("give a model of running text a text")


def running(name: str, **own: Any) -> TaskSpec:
    return TaskSpec(
        name=name,
        files=lazy("regard.tasks.running_text:files"),
        prepare=lazy(f"regard.tasks.{name}.task:prepare"),
        model=lazy("regard.tasks.warmstart:sized_model"),
        evaluate=TextEvaluation,
        judge=lazy(f"regard.tasks.running_judge:{name}"),
        **own,
    )
