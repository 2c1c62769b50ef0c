"""What the tasks of running text share that needs no torch: their TaskSpec, how they are evaluated and compared."""

from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.tasks.judging import Judge, Judged
from regard.tasks.options import Options, option
from regard.tasks.spec import TaskSpec, lazy


@dataclass(frozen=True, kw_only=True)
class TextEvaluation(Options):
    """Of `regard evaluate`, of models of running text."""

    text: Path | None = option(None, "A text that the model has not seen.", kind=Path)

    def __post_init__(self) -> None:
        if self.text is None:
            raise UserError("give a model of running text a text")


class TextJudge(Judge):
    """By the best loss on the validation text, as training found it."""

    limits = dict.fromkeys(("loss", "per_character"), (0.0, inf))

    @property
    def metric(self) -> str:
        """Nats of a token compare nothing where tokens differ."""
        words = {(recipe.data.tokenizer, recipe.tokenizer_from) for recipe in self.recipes.values()}
        return "loss" if len(words) == 1 else "per_character"

    def check(self) -> None:
        if self.chosen:
            raise UserError(f"models of running text are judged by their validation loss; drop {self.chosen}")
        if not (self.recipe.data.valid or self.recipe.data.hold_out):
            raise UserError("the recipes hold nothing out to judge by; set data.hold_out to 0.1")

    def judge(self, model: Any) -> Judged:
        from regard.tasks.folder import read_json

        value = float(read_json(model.loaded.folder)["metrics"][self.metric])
        return Judged(metric=self.metric, higher=False, value=value)


def running(name: str, same: tuple[str, ...] = (), **own: Any) -> TaskSpec:
    """`same`: settings of the data that have to be equal where models are compared, besides those of all."""
    return TaskSpec(
        name=name,
        files=lazy("regard.tasks.running_text:files"),
        prepare=lazy(f"regard.tasks.{name}.task:prepare"),
        model=lazy("regard.tasks.warmstart:sized_model"),
        evaluate=TextEvaluation,
        judge=partial(TextJudge, same=(*Judge.same, "documents", *same)),
        **own,
    )
