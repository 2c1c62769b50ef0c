"""The TaskSpec of a task of labelled examples."""

from __future__ import annotations

from regard.decode.config import Greedy
from regard.models.config import ReaderConfig
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.options import AnswerOptions, ExamplesEvaluation
from regard.tasks.spec import TaskSpec, lazy


def labelled(name: str, plural: str, recipe: type[LabelledRecipe], *verbs: str) -> TaskSpec:
    return TaskSpec(
        name=name,
        purpose=name,
        plural=plural,
        recipe=recipe,
        models=ReaderConfig,
        search=Greedy(),
        files=lazy("regard.tasks.labelled.prepare:files"),
        prepare=lazy("regard.tasks.labelled.prepare:prepare"),
        model=lazy("regard.tasks.labelled.prepare:model"),
        runtime=lazy("regard.tasks.labelled.runtime:Answerer"),
        run=AnswerOptions,
        evaluate=ExamplesEvaluation,
        verbs={verb: {} for verb in verbs},
        judge=lazy("regard.tasks.labelled.judge:judge"),
    )
