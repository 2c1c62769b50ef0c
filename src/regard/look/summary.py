"""Attention in numbers: how spread each head is, what it covers, and what is lost without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from regard.attention.site import Trace
from regard.engine.explain import Explanation, explain
from regard.errors import UserError
from regard.metrics.alignment import Gold
from regard.shapes import Padded
from regard.tasks.align import Aligned
from regard.tasks.translator import Translator

BATCH = 32  # sentences that are looked at together


@dataclass(frozen=True)
class Head:
    """Of one head over some sentences."""

    site: str
    head: int
    entropy: float
    """Of its rows, in bits, on average: 0 looks at one word only."""
    largest: float
    """The largest weight of a row, on average."""
    loss: float
    """By how much the log-probability of a token falls without it."""
    alignment_error: float | None = None
    """Of the links read off it against gold ones, where they are given and it looks across."""


@dataclass(frozen=True)
class Covered:
    """How a sentence was covered."""

    text: str
    said: str
    error: float
    """0 where every source word was looked at once in all; words left out or dwelt on add to it [Rikters+ 2017]."""
    least: str
    """The source word that was looked at least."""


def entropy(weights: Tensor) -> Tensor:
    """Of the last axis, in bits."""
    return torch.special.entr(weights).sum(-1) / log(2)


def coverage_error(weights: Tensor) -> float:
    """Of one map (T, S)."""
    return float((1 + (1 - weights.sum(0)) ** 2).log().mean())


def heads(
    model: Translator,
    texts: Sequence[str],
    outputs: Sequence[Sequence[int]],
    tick: Callable[[int], None],
    gold: Sequence[Gold] | None = None,
) -> list[Head]:
    """All heads of a model, most needed first; `tick` is told how many are done."""
    errors = {} if gold is None else Aligned(model, texts, outputs).errors(gold)
    batches = [_batch(model, texts, outputs, at) for at in range(0, len(texts), BATCH)]
    told = [each for source, said in batches for each in explain(model.model, source, said)]
    words = sum(len(each.target) for each in told)
    whole, found = _log_prob(told), list[Head]()
    for done, (site, head) in enumerate(places(model), 1):
        muted = [e for source, said in batches for e in explain(model.model, source, said, Trace(muted=(site, head)))]
        rows = torch.cat([entropy(each.maps[site][head]) for each in told])
        tops = torch.cat([each.maps[site][head].amax(-1) for each in told])
        loss = (whole - _log_prob(muted)) / words
        error = float(errors[site][head]) if site in errors else None
        found.append(Head(site, head, float(rows.mean()), float(tops.mean()), loss, error))
        tick(done)
    return sorted(found, key=lambda each: -each.loss)


def places(model: Translator) -> list[tuple[str, int]]:
    """Every site and head of a model."""
    (told,) = model.explain(["a"], [[model.end]])
    if not told.maps:
        raise UserError("this model has no attention to look at; train one with attention")
    return [(site, head) for site, weights in told.maps.items() for head in range(len(weights))]


def worst(
    model: Translator, texts: Sequence[str], outputs: Sequence[Sequence[int]], tick: Callable[[int], None]
) -> list[Covered]:
    """Sentences by how badly the last cross-attention covers their words, worst first."""
    found = []
    for at in range(0, len(texts), BATCH):
        for text, told in zip(
            texts[at : at + BATCH], explain(model.model, *_batch(model, texts, outputs, at)), strict=True
        ):
            sites = [site for site in told.maps if site.endswith("cross")]
            if not sites:
                raise UserError("this model does not look across from a target to a source; train one with attention")
            columns = model.tokenizers.source.words(told.source)
            weights = told.merged(sites[-1], model.tokenizers.target.words(told.target), columns).mean(0)[:, :-1]
            names = model.tokenizers.source.decode(told.source).split() or [text]
            least = names[min(int(weights.sum(0).argmin()), len(names) - 1)]
            found.append(Covered(text, model.tokenizers.target.decode(told.target), coverage_error(weights), least))
        tick(len(found))
    return sorted(found, key=lambda each: -each.error)


def _batch(
    model: Translator, texts: Sequence[str], outputs: Sequence[Sequence[int]], at: int
) -> tuple[Padded, Sequence[Sequence[int]]]:
    return Padded.of(model.tokenizers.read(texts[at : at + BATCH], model.tag)), outputs[at : at + BATCH]


def _log_prob(told: Sequence[Explanation]) -> float:
    return float(sum(each.log_probs.double().sum() for each in told))
