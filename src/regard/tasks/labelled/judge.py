"""How good a model of labelled examples is, for `regard compare`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.data.config import ExamplesConfig
from regard.data.examples import Example, read_examples, split
from regard.errors import UserError
from regard.metrics.labels import LABEL_METRICS
from regard.metrics.resample import Score, label_score
from regard.tasks.judging import Judge, Judged
from regard.tasks.labelled.question import question_of


class LabelledJudge(Judge):
    items = "examples"
    limits: ClassVar = {"pearson": (-1.0, 1.0), "spearman": (-1.0, 1.0), "matthews": (-100.0, 100.0)}

    @property
    def metric(self) -> str:
        return str(self.recipe.metrics[0] if super().metric == "default" else super().metric)

    @property
    def examples(self) -> list[Example]:
        form = question_of(self.recipe.task).form
        if self.data is None:
            return split(self.recipe.data, form)[1]
        is_file, own = Path(self.data).is_file(), self.recipe.data.input
        named = ExamplesConfig(file=self.data, input=own) if is_file else ExamplesConfig(corpus=self.data, input=own)
        return read_examples([named], form)

    def check(self) -> None:
        if self.source is not None:
            raise UserError("`source` and `target` are for translators; give labelled examples as `data`")
        if not self.examples:
            raise UserError("the recipes hold nothing out to judge by; give `data`, or set data.hold_out to 0.1")

    def judge(self, model: Any) -> Judged:
        asked = self.examples
        said, wanted = model.predictions(asked)
        score, direction = LABEL_METRICS[self.metric]
        higher, value = direction == "higher", float(score(said, wanted))
        return Judged(metric=self.metric, higher=higher, value=value, asked=asked, said=said, wanted=wanted)

    def score(self, judged: Judged) -> Score:
        return label_score(LABEL_METRICS[judged.metric][0], judged.said, judged.wanted)

    def answer(self, model: Any, asked: Sequence[Any]) -> None:
        model.predictions([Example(tuple(texts), answer, line) for texts, answer, line in asked])
