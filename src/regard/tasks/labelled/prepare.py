"""From labelled examples to what is trained: the task, and a model that answers."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from regard.data.examples import place_of, split
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.models.build import build
from regard.models.config import ReaderConfig
from regard.nn.lora import hold
from regard.tasks.folder import Loaded, load_tokenizers, save_tokenizers
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.layout import Layout, check_room, is_encoder
from regard.tasks.labelled.start import reader_for, settle_reader
from regard.tasks.labelled.task import Reading
from regard.tasks.warmstart import begin


def files(recipe: LabelledRecipe) -> list[Path]:
    """The data files that a recipe names."""
    return [place_of(corpus, recipe.task) for corpus in (*recipe.data.train, *recipe.data.valid)]


def prepare(recipe: LabelledRecipe, folder: Path, base: Loaded | None = None) -> Reading:
    """The examples to learn from, as the model that is begun with, or a new one, reads them."""
    examples, held = split(recipe.data, recipe.task)
    if base is None and not (folder / "tokenizer.json").exists():
        trained = Tokenizer.train((text for e in examples for text in e.texts), recipe.data.tokenizer)
        save_tokenizers(folder, Tokenizers(trained, trained))
    tokenizer, start = load_tokenizers(folder).target, None if base is None else base.config
    config = reader_for(recipe.model, recipe.task, tokenizer, start, examples)
    check_room(config, recipe.data.max_length)
    return Reading(
        Layout(tokenizer, config, recipe.data.max_length),
        examples,
        held,
        batch_tokens=recipe.train.batch_tokens,
        auxiliary=recipe.train.lm_loss_weight,
        smoothing=recipe.train.label_smoothing,
        metric=None if recipe.train.metric == "default" else recipe.train.metric,
    )


def model(recipe: LabelledRecipe, task: Reading, folder: Path, base: Loaded | None) -> nn.Module:
    """A new head on a trunk that is new, or has the weights of another."""
    made = build(task.layout.config, recipe.train.seed)
    settle_reader(made, task.auxiliary > 0)
    encoder, answers = is_encoder(task.layout.config.trunk), base is not None and isinstance(base.config, ReaderConfig)
    marks = base is not None and not encoder and not answers
    grown = begin(made, folder, None if task.layout.config.architecture_only else base, marks)
    trunk, train = made.trunk, recipe.train
    hold(trunk, frozen=train.frozen_layers, rank=train.lora_rank, seed=train.seed, grown=bool(grown.target))
    return made
