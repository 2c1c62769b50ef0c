"""What the tasks of running text share that needs no torch: their TaskSpec, how they are evaluated and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.tasks.config import BaseRecipe
from regard.tasks.judging import Given, Judge, Judged
from regard.tasks.options import Options, option
from regard.tasks.spec import TaskSpec, lazy


@dataclass(frozen=True, kw_only=True)
class TextEvaluation(Options):
    """Of `regard evaluate`, of models of running text."""

    text: Path | None = option(None, "A text that the model has not seen.", kind=Path)

    def __post_init__(self) -> None:
        if self.text is None:
            raise UserError("give a model of running text a text")


def running(name: str, *same: str, **own: Any) -> TaskSpec:
    """`same`: settings of the data that have to be equal where models are compared, besides those of all."""
    limits = dict.fromkeys(("loss", "per_character"), (0.0, inf))
    return TaskSpec(
        name=name,
        files=lazy("regard.tasks.running_text:files"),
        prepare=lazy(f"regard.tasks.{name}.task:prepare"),
        model=lazy("regard.tasks.warmstart:sized_model"),
        evaluate=TextEvaluation,
        judge=lambda: Judge(
            metric=_metric, judge=_judge, check=_check, same=(*Judge.same, "documents", *same), limits=limits
        ),
        **own,
    )


def _metric(recipes: Sequence[BaseRecipe]) -> str:
    """Nats of a token compare nothing where tokens differ."""
    words = {(recipe.data.tokenizer, recipe.tokenizer_from) for recipe in recipes}
    return "loss" if len(words) == 1 else "per_character"


def _check(recipe: BaseRecipe, given: Given) -> None:
    if given.chosen:
        raise UserError(f"models of running text are judged by their validation loss; drop {given.chosen}")
    if not (recipe.data.valid or recipe.data.hold_out):
        raise UserError("the recipes hold nothing out to judge by; add --set data.hold_out=0.1")


def _judge(model: Any, recipe: BaseRecipe, given: Given) -> Judged:
    """By the best loss on the validation text, as training found it."""
    from regard.tasks.folder import read_json

    value = float(read_json(model.loaded.folder)["metrics"][given.metric])
    return Judged(metric=given.metric, higher=False, value=value)
