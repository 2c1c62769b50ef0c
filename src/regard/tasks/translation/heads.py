"""Attention in numbers: how spread each head is, what it covers, and what is lost without it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.engine.engine import Rows
from regard.errors import UserError
from regard.look.look import entropy
from regard.metrics.alignment import Gold
from regard.tasks.options import Texts
from regard.tasks.runnable import Tick
from regard.tasks.translation.align import Aligned, crossing
from regard.tasks.translation.runtime import Translator


@dataclass(frozen=True)
class Head:
    """Of one head over some sentences."""

    site: str
    head: int
    entropy: float  # of its rows, in bits, on average: 0 looks at one word only
    largest: float  # the largest weight of a row, on average
    loss: float  # by how much the log-probability of a token falls without it
    alignment_error: float | None = None
    """Of the links read off it against gold ones, where they are given and it looks across."""


@dataclass(frozen=True)
class Covered:
    """How a sentence was covered."""

    text: str
    said: str
    error: float
    """0 where every source word was looked at once in all; words left out or dwelt on add to it [Rikters+ 2017]."""
    least: str  # the source word that was looked at least


def coverage_error(weights: Tensor) -> float:
    """Of one map (T, S)."""
    return float((1 + (1 - weights.sum(0)) ** 2).log().mean())


def heads(model: Translator, texts: Texts, outputs: Rows, tick: Tick, gold: Sequence[Gold] | None = None) -> list[Head]:
    """All heads of a model, most needed first; `tick` is told how many are done."""
    errors = {} if gold is None else Aligned(model, texts, outputs).errors(gold)
    rows = dict[str, list[tuple[Tensor, Tensor]]]()  # of each site; the weights of a file are more than can be held
    whole, words, found = 0.0, sum(map(len, outputs)), list[Head]()
    for each in model.explained(texts, outputs):
        whole += float(each.log_probs.double().sum())
        for site, weights in each.maps.items():
            rows.setdefault(site, []).append((entropy(weights), weights.amax(-1)))
    spread = {site: [torch.cat(parts, 1).mean(1) for parts in zip(*some, strict=True)] for site, some in rows.items()}
    for done, (site, head) in enumerate(places(model), 1):
        left = sum(float(each.log_probs.double().sum()) for each in model.explained(texts, outputs, (site, head)))
        error = float(errors[site][head]) if site in errors else None
        bits, largest = (float(mean[head]) for mean in spread[site])
        found.append(Head(site, head, bits, largest, (whole - left) / words, error))
        tick(done)
    return sorted(found, key=lambda each: -each.loss)


def places(model: Translator) -> list[tuple[str, int]]:
    """Every site and head of a model."""
    (told,) = model.explain(["a"], [[model.end]])
    if not told.maps:
        raise UserError("this model has no attention to look at; train one with attention")
    return [(site, head) for site, weights in told.maps.items() for head in range(len(weights))]


def worst(model: Translator, texts: Texts, outputs: Rows, tick: Tick) -> list[Covered]:
    """Sentences by how badly the last cross-attention covers their words, worst first."""
    found = []
    for text, told in zip(texts, model.explained(texts, outputs), strict=True):
        rows, columns = model.tokenizers.target.words(told.target), model.tokenizers.text.words(told.source)
        weights = told.merged(crossing(told)[-1][0], rows, columns).mean(0)[:, :-1]
        names = model.tokenizers.text.decode(told.source).split() or [text]
        least = names[min(int(weights.sum(0).argmin()), len(names) - 1)]
        found.append(Covered(text, model.tokenizers.target.decode(told.target), coverage_error(weights), least))
        tick(len(found))
    return sorted(found, key=lambda each: -each.error)
