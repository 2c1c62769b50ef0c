"""How good a model of running text is, for `regard compare`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from regard.errors import UserError
from regard.tasks.config import BaseRecipe
from regard.tasks.folder import read_json
from regard.tasks.judging import Given, Judge, Judged

SAME = (*Judge.same, "documents")
NATS = dict.fromkeys(("loss", "per_character"), (0.0, inf))


def lm() -> Judge:
    return Judge(metric=_metric, judge=_judge, check=_check, same=SAME, limits=NATS)


def bilm() -> Judge:
    return Judge(metric=_metric, judge=_judge, check=_check, same=(*SAME, "tokenizer", "tokenizer_from"), limits=NATS)


def mlm() -> Judge:
    same = (*SAME, "tokenizer", "tokenizer_from", "mask_rate", "whole_word_masking")
    return Judge(metric=_metric, judge=_judge, check=_check, same=same, limits=NATS)


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
    value = float(read_json(model.loaded.folder)["metrics"][given.metric])
    return Judged(metric=given.metric, higher=False, value=value)
