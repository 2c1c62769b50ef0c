"""How good a translator is, for `regard compare`."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from regard.data.config import PAIR_ENDINGS, PairsConfig
from regard.data.text import Pair, pairs
from regard.errors import UserError
from regard.metrics.resample import Score, text_score
from regard.metrics.text import METRICS
from regard.tasks.judging import Judge, Judged
from regard.tasks.translation.runtime import Translator


class TranslationJudge(Judge):
    items = "sentences"
    limits: ClassVar = {"exact_match": (0.0, 1.0), "word_error_rate": (0.0, inf)}

    @property
    def pairs(self) -> PairsConfig | None:
        """The data that were asked for."""
        own = self.recipe.data.input
        if self.data is not None:
            written = self.data.endswith(PAIR_ENDINGS)
            return PairsConfig(pairs=self.data, input=own) if written else PairsConfig(corpus=self.data, input=own)
        return PairsConfig(source=str(self.source), target=str(self.target), input=own) if self.source else None

    def check(self) -> None:
        if self.pairs is not None:
            for _ in pairs(self.pairs):  # mistakes are told now, and not after hours
                pass
        elif not (self.recipe.data.valid or self.recipe.data.hold_out):
            raise UserError("the recipes hold nothing out to judge by; give `source` and `target`, or `data`")

    def judge(self, model: Translator) -> Judged:
        folder, data = model.loaded.folder, self.recipe.data
        held = PairsConfig(source=str(folder / "valid.source"), target=str(folder / "valid.target"), input=data.input)
        config = self.pairs or (held if data.hold_out else None)
        judged_by = [pair for corpus in ([config] if config else data.valid) for pair in pairs(corpus)]
        asked, wanted = [(pair.source, pair.tag) for pair in judged_by], [pair.target for pair in judged_by]
        said = self.answer(model, asked)
        score, direction = METRICS[self.metric]
        scored = score(said, wanted)
        return Judged(
            metric=self.metric, higher=direction == "higher", value=scored.value, signature=scored.signature,
            asked=asked, said=said, wanted=wanted,
        )  # fmt: skip

    def score(self, judged: Judged) -> Score:
        return text_score(judged.metric, judged.said, judged.wanted)

    def answer(self, model: Translator, asked: Sequence[tuple[str, str | None]]) -> list[str]:
        """Sources with the directions they are to go."""
        return model.best_of(Pair(source, "", tag, 0) for source, tag in asked)
