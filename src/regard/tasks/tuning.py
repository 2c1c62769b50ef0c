"""Models that begin with the weights of others: what is kept of those, and how new words and marks begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data.config import LabelTask
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.config import OF_TOKENS, BertConfig, ModelConfig, ReaderConfig, Trunk
from regard.rng import Key
from regard.tasks.layout import MARKS, is_encoder

MOST_LABELS = 1000
NOISE = 0.1  # of the deviation of words: so far from their mean begins a mark that is made of nothing


def reader_for(
    config: ReaderConfig, question: LabelTask, tokenizer: Tokenizer, start: ModelConfig | None, train: Sequence[Example]
) -> ReaderConfig:
    """The reader of a recipe, with all that its words and examples tell."""
    trunk = config.trunk if start is None else trunk_of(start)
    if start is None:
        marks = (tokenizer.id_of("<start>") or 1, tokenizer.end)
        trunk = replace(trunk, start=marks[0], end=marks[1], vocabulary=tokenizer.vocabulary)
    vocabulary = tokenizer.vocabulary + (0 if is_encoder(trunk) else MARKS)
    trunk = replace(trunk, vocabulary=vocabulary)
    if isinstance(trunk, BertConfig):
        pooler = config.pooling == "first" and question not in OF_TOKENS
        trunk = replace(trunk, guesses=False, next_sentence=False, pooler=pooler)
    pairs = question in ("choice", "spans") or (question != "tagging" and any(len(e.texts) == 2 for e in train))
    if config.symmetric and (not pairs or question not in ("classification", "regression")):
        raise UserError("model.symmetric reads pairs of texts in both orders, and here are none; drop it")
    config = replace(config, trunk=trunk, question=question, pairs=pairs, labels=_labels(question, train))
    if question == "regression":
        numbers = [example.answer for example in train]
        config = replace(config, center=fmean(numbers), spread=pstdev(numbers) or 1.0)
    return config


def trunk_of(config: ModelConfig) -> Trunk:
    """What reads in a model."""
    config = config.trunk if isinstance(config, ReaderConfig) else config
    if not isinstance(config, Trunk):
        raise UserError(f"a {config.kind} is made for pairs of texts; begin with an encoder or a language model")
    return config


def _labels(question: LabelTask, train: Sequence[Example]) -> tuple[str, ...]:
    if question not in ("classification", "tagging"):
        return ()
    found = {tag for e in train for tag in e.answer} if question == "tagging" else {e.answer for e in train}
    if len(found) > MOST_LABELS or len(found) < 2:
        few = f"{len(found)} different labels, where 2 to {MOST_LABELS} can be told apart"
        raise UserError(f"the examples to train on have {few}; for numbers use task: regression")
    return tuple(sorted(found))


class Grown(NamedTuple):
    """New words that are read and said: of each the old ids that it begins as the mean of; of marks, none."""

    source: Sequence[Sequence[int]] = ()
    target: Sequence[Sequence[int]] = ()


NOTHING_NEW = Grown()


@torch.no_grad()
def take_weights(model: nn.Module, given: Any, where: Any, grown: Grown = NOTHING_NEW) -> None:
    """The weights of another model of the same shape, but for word tables, which may be longer by new words: each
    begins as the mean of some old ones, or near the mean of all [Hewitt 2021]."""
    reads = hasattr(model, "trunk")
    ours = dict((model.trunk if reads else model).named_parameters())  # type: ignore[union-attr]
    theirs = dict(getattr(given, "trunk", given).named_parameters())
    new = {name for name in ours if reads and name.startswith("pooler.") and name not in theirs}
    more = {name: grown.source if name.startswith("source") else grown.target for name in ours}
    wrong = sorted(name for name in ours.keys() - new if not _fits(ours[name], theirs.get(name), len(more[name])))
    wrong += [] if reads else sorted(theirs.keys() - ours.keys())
    if wrong:
        raise UserError(f"{where} has another shape ({', '.join(wrong[:4])}); use the model section of its recipe.yaml")
    marks = MARKS if hasattr(given, "trunk") and not is_encoder(given.config.trunk) else 0  # they stay the last
    for name in ours.keys() - new:
        mine, old = ours[name], theirs[name]
        if mine.shape == old.shape:
            mine.copy_(old)
            continue
        first = len(old) - marks
        mine[:first], mine[first + len(more[name]) :] = old[:first], old[first:]
        for i, ids in enumerate(more[name], first):
            mine[i] = old[list(ids)].mean(0) if ids else _near_all(old, Key(i, ("mark",)))


def _fits(ours: Tensor, theirs: Tensor | None, more: int) -> bool:
    if theirs is None or ours.dim() != theirs.dim() or ours.shape[1:] != theirs.shape[1:]:
        return False
    return len(ours) in (len(theirs), len(theirs) + more) if ours.dim() else True


def _near_all(old: Tensor, key: Key) -> Tensor:
    drawn = torch.from_numpy(key.generator().standard_normal(old.shape[1:])).to(old.dtype)
    return old.mean(0) + NOISE * old.std(0) * drawn


def origins(tokenizer: Tokenizer, before: Tokenizer, marks: bool) -> list[list[int]]:
    """Of each row that a table grows by: the ids that its word was spelled by, and of marks none."""
    words = tokenizer.new_words[len(before.new_words) :]
    return [*before.encode(words), *([[]] * MARKS if marks else [])]


def settle_reader(model: Any, auxiliary: bool) -> None:
    """Hold still what no answer depends on: a language model's own output, where its loss is not added."""
    tied = {id(p) for p in model.trunk.embedding.parameters()}
    parts: Mapping[str, nn.Module] = {n: m for n, m in model.trunk.named_children() if n in ("head", "readout")}
    encoder = is_encoder(model.config.trunk)
    if auxiliary and (encoder or "head" not in parts):
        raise UserError("train.auxiliary adds the loss of a language model, and this one tells no words; set it to 0")
    for name, part in parts.items() if not auxiliary else ():
        if name == "head" or not hasattr(model.trunk, "advance"):  # a recurrent decoder answers from its readout
            for p in part.parameters():
                p.requires_grad_(p.requires_grad and id(p) in tied)
