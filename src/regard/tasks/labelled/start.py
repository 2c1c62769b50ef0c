"""The settings of a model that answers, from a recipe, the model that it begins with, and the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

from torch import nn

from regard.data.config import LabelTask
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.config import OF_TOKENS, BertConfig, ModelConfig, ReaderConfig, Trunk
from regard.tasks.labelled.layout import MARKS, is_encoder

MOST_LABELS = 1000


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


def settle_reader(model: Any, auxiliary: bool) -> None:
    """Hold still what no answer depends on: a language model's own output, where its loss is not added."""
    tied = {id(p) for p in model.trunk.embedding.parameters()}
    parts: Mapping[str, nn.Module] = {n: m for n, m in model.trunk.named_children() if n in ("head", "readout")}
    encoder = is_encoder(model.config.trunk)
    if auxiliary and (encoder or "head" not in parts):
        raise UserError("train.lm_loss_weight adds the loss of a language model, and this one has none; set it to 0")
    for name, part in parts.items() if not auxiliary else ():
        if name == "head" or not hasattr(model.trunk, "advance"):  # a recurrent decoder answers from its readout
            for p in part.parameters():
                p.requires_grad_(p.requires_grad and id(p) in tied)
