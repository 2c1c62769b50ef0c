"""How good a model of labelled examples is, for `regard compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.config import ExamplesConfig
from regard.data.examples import Example, read_examples, split
from regard.errors import UserError
from regard.metrics.labels import LABEL_METRICS
from regard.metrics.resample import label_score
from regard.tasks.judging import Given, Judge, Judged
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.question import question_of


def judge() -> Judge:
    return Judge(
        metric=lambda recipes: str(recipes[0].metric),
        judge=_judge_labels,
        check=_check_labels,
        score=lambda judged: label_score(LABEL_METRICS[judged.metric][0], judged.said, judged.wanted),
        answer=_label,
        items="examples",
        limits={"pearson": (-1.0, 1.0), "spearman": (-1.0, 1.0), "matthews": (-100.0, 100.0)},
    )


def _check_labels(recipe: LabelledRecipe, given: Given) -> None:
    if given.source is not None:
        raise UserError("--source and --target are for translators; give labelled examples by --data")
    if not _labelled(recipe, given):
        raise UserError("the recipes hold nothing out to judge by; give --data, or add --set data.hold_out=0.1")


def _labelled(recipe: LabelledRecipe, given: Given) -> list[Example]:
    form = question_of(recipe.task).form
    if given.data is None:
        return split(recipe.data, form)[1]
    kind = "file" if Path(given.data).is_file() else "corpus"
    return read_examples([ExamplesConfig(**{kind: given.data})], form)


def _judge_labels(model: Any, recipe: LabelledRecipe, given: Given) -> Judged:
    asked = _labelled(recipe, given)
    said, wanted = model.predictions(asked)
    metric, direction = LABEL_METRICS[given.metric]
    value = float(metric(said, wanted))
    higher = direction == "higher"
    return Judged(metric=given.metric, higher=higher, value=value, asked=asked, said=said, wanted=wanted)


def _label(model: Any, asked: Sequence[Any]) -> None:
    model.predictions([Example(tuple(texts), answer, line) for texts, answer, line in asked])
