"""From labelled examples to what is trained: the task, a model that answers, and its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.examples import Example, place_of, read_examples, split
from regard.data.input import Input, kind_of, named
from regard.data.tokenizer import Tokenizer, Tokenizers, text_of
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import BertConfig, ElmoConfig, ModelConfig, ReaderConfig, Trunk
from regard.nn.lora import hold
from regard.tasks.folder import Loaded, has_tokenizers, load_tokenizers, save_tokenizers
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.layout import MARKS, Layout
from regard.tasks.labelled.question import question_of
from regard.tasks.labelled.task import Reading
from regard.tasks.warmstart import begin


def files(recipe: LabelledRecipe) -> list[Path]:
    """The data files that a recipe names."""
    question, other = question_of(recipe.task), recipe.data.input
    if question.of_text and other is not None:
        raise UserError(f"data.input {other.kind}: {recipe.task} is of text; use task: classification or regression")
    form, corpora = question.form, (*recipe.data.train, *recipe.data.valid)
    paths = [place_of(corpus, form) for corpus in corpora]
    items = (text for each in read_examples(corpora, form, labelled=False) for text in each.texts)
    return paths + (named(items) if recipe.data.input else [])


def prepare(recipe: LabelledRecipe, folder: Path, base: Loaded | None = None) -> Reading:
    """The examples to learn from, as the model that is begun with, or a new one, reads them."""
    question, other = question_of(recipe.task), recipe.data.input
    examples, held = split(recipe.data, question.form)
    if base is None and not has_tokenizers(folder):
        texts = (text for e in examples for text in e.texts)
        own: Any = kind_of(other.kind).learned(other, texts) if other else Tokenizer.train(texts, recipe.data.tokenizer)
        save_tokenizers(folder, Tokenizers(own, own))
    reads, start = load_tokenizers(folder).source, None if base is None else base.config
    config = reader_for(recipe.model, recipe.task, reads, start, examples)
    return Reading(Layout(reads, config, recipe.data.max_length), examples, held, recipe.train)


def model(recipe: LabelledRecipe, task: Reading, folder: Path, base: Loaded | None) -> nn.Module:
    """A new head on a trunk that is new, or has the weights of another."""
    config, train = task.layout.config, recipe.train
    reader = build(config, train.seed)
    settle_reader(reader, train.lm_loss_weight > 0)
    new_marks = base is not None and not isinstance(base.config, ReaderConfig) and not config.trunk.both_ways
    grown = begin(reader, folder, None if config.architecture_only else base, new_marks)
    hold(reader.trunk, frozen=train.frozen_layers, rank=train.lora_rank, seed=train.seed, grown=grown)
    return reader


def reader_for(
    config: ReaderConfig, task: str, reads: Input, start: ModelConfig | None, train: Sequence[Example]
) -> ReaderConfig:
    """The reader of a recipe, with all that its words and examples tell."""
    trunk = config.trunk if start is None else trunk_of(start)
    if (front := reads.front) is not None:
        if not isinstance(trunk, BertConfig | ElmoConfig):
            raise UserError(f"model.trunk.kind: {trunk.kind} reads tokens, no {front.kind}; use bert or elmo")
        trunk, config = replace(trunk, front=front, vocabulary=0), replace(config, pooling="mean")
    elif start is None:
        tokenizer = text_of(reads)
        marks = (tokenizer.id_of("<start>") or 1, tokenizer.end)
        trunk = replace(trunk, start=marks[0], end=marks[1], vocabulary=tokenizer.vocabulary)
    trunk = replace(trunk, vocabulary=reads.vocabulary + (0 if trunk.both_ways else MARKS))
    question = question_of(task)
    settings = {"question": task, "pairs": question.pairs(train), **question.settings(train)}
    config = replace(config, trunk=trunk, **settings)
    if isinstance(trunk, BertConfig):
        pooler = config.pooling == "first" and not config.of_tokens
        config = replace(config, trunk=replace(trunk, guesses=False, next_sentence=False, pooler=pooler))
    if config.symmetric and (not config.pairs or question.paired is not None):
        raise UserError("model.symmetric reads pairs of texts in both orders, and here are none; drop it")
    return config


def trunk_of(config: ModelConfig) -> Trunk:
    """What reads in a model."""
    config = config.trunk if isinstance(config, ReaderConfig) else config
    if not isinstance(config, Trunk):
        raise UserError(f"a {config.kind} is made for pairs of texts; begin with an encoder or a language model")
    return config


def settle_reader(model: Any, auxiliary: bool) -> None:
    """Hold still what no answer depends on: a language model's own output, where its loss is not added."""
    tied = {id(p) for p in model.trunk.embedding.parameters()}
    parts: Mapping[str, nn.Module] = {n: m for n, m in model.trunk.named_children() if n in ("head", "readout")}
    encoder = model.config.trunk.both_ways
    if auxiliary and (encoder or "head" not in parts):
        raise UserError("train.lm_loss_weight adds the loss of a language model, and this one has none; set it to 0")
    for name, part in parts.items() if not auxiliary else ():
        if name == "head" or encoder:  # a recurrent decoder answers from its readout
            for p in part.parameters():
                p.requires_grad_(p.requires_grad and id(p) in tied)
