"""How good a translator is, for `regard compare`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf
from operator import itemgetter

from regard.data.config import PAIR_ENDINGS, PairsConfig
from regard.data.text import pairs
from regard.errors import UserError
from regard.metrics.resample import text_score
from regard.metrics.text import METRICS
from regard.tasks.judging import Given, Judge, Judged
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.runtime import Translator


def judge() -> Judge:
    return Judge(
        metric=lambda recipes: str(recipes[0].train.metric),
        judge=_judge,
        check=_check,
        score=lambda judged: text_score(judged.metric, judged.said, judged.wanted),
        answer=_translate,
        items="sentences",
        limits={"exact_match": (0.0, 1.0), "word_error_rate": (0.0, inf)},
    )


def _pairs(given: Given) -> PairsConfig | None:
    if given.data is not None:
        return PairsConfig(**{"pairs" if given.data.endswith(PAIR_ENDINGS) else "corpus": given.data})
    return PairsConfig(source=str(given.source), target=str(given.target)) if given.source else None


def _check(recipe: TranslationRecipe, given: Given) -> None:
    config = _pairs(given)
    if config is not None:
        for _ in pairs(config):  # mistakes are told now, and not after hours
            pass
    elif not (recipe.data.valid or recipe.data.hold_out):
        raise UserError("the recipes hold nothing out to judge by; give --source and --target, or --data")


def _judge(model: Translator, recipe: TranslationRecipe, given: Given) -> Judged:
    folder = model.loaded.folder
    held = PairsConfig(source=str(folder / "valid.source"), target=str(folder / "valid.target"))
    config = _pairs(given) or (held if recipe.data.hold_out else None)
    judged_by = [pair for corpus in ([config] if config else recipe.data.valid) for pair in pairs(corpus)]
    asked, wanted = [(pair.source, pair.tag) for pair in judged_by], [pair.target for pair in judged_by]
    said = _translate(model, asked)
    score, direction = METRICS[given.metric]
    scored = score(said, wanted)
    return Judged(
        metric=given.metric, higher=direction == "higher", value=scored.value, signature=scored.signature, asked=asked,
        said=said, wanted=wanted,
    )  # fmt: skip


def _translate(model: Translator, asked: Sequence[tuple[str, str | None]]) -> list[str]:
    """Sources with the directions they are to go."""
    said: list[str] = []
    for tag, members in groupby(asked, key=itemgetter(1)):
        model.tag = tag
        said += model.best([source for source, _ in members])
    return said
