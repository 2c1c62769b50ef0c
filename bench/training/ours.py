"""Regard itself: the Trainer, Task and optimizer that `regard train` makes of a recipe."""

from __future__ import annotations

from typing import Any

import numpy as np
from bench.training.shapes import CLIP, CORPUS, DROPOUT, FOLDER, PADDING, RATE, SMOOTHING, START, VOCABULARY, Shape
from bench.training.worker import Contender

from regard.data.config import DataConfig, PairsConfig, TokenizerConfig
from regard.exchange import folders
from regard.models.config import RecurrentAttention, RecurrentConfig, TransformerConfig
from regard.tasks.config import TrainConfig
from regard.tasks.translation.config import TranslationRecipe
from regard.training.distributed import World
from regard.training.run import Run, keep_memory


def recipe(shape: Shape) -> TranslationRecipe:
    model: TransformerConfig | RecurrentConfig
    if shape.score is None:
        model = TransformerConfig(
            width=shape.width,
            hidden=shape.hidden,
            num_heads=shape.heads,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            placement="pre",
            tied="all",
            dropout=DROPOUT,
            hidden_dropout=DROPOUT,
            attention_dropout=DROPOUT,
        )
    else:  # JoeyNMT's current state looks, and what it saw goes back or not; of ours, the previous or the current
        looks = RecurrentAttention(score=shape.score, query="previous" if shape.score == "additive" else "current")
        model = RecurrentConfig(
            embedding=shape.width, width=shape.width, attention=looks, tied="all", dropout=DROPOUT, cell="lstm"
        )
    return TranslationRecipe(
        data=DataConfig(train=(PairsConfig(corpus=CORPUS),), tokenizer=TokenizerConfig(vocabulary=VOCABULARY)),
        model=model,
        train=TrainConfig(
            steps=1,
            batch_tokens=shape.batch_tokens,
            optimizer="adam",  # as the rivals, whatever the default is
            lr=RATE,
            clip=CLIP,
            label_smoothing=SMOOTHING,
        ),
    )


def regard(shape: Shape, rank: int, processes: int, meeting: str) -> Contender:
    keep_memory()
    world = World.join(meeting, rank, processes) if processes > 1 else World()
    trainer = Run(recipe(shape), FOLDER, folders).trainer(world=world)

    def update(step: int) -> tuple[float, int]:
        done = trainer.update(trainer.weights, step)
        return done.loss, done.tokens if world.leads else 0  # each knows those of all

    return Contender(trainer.weights.model, update)


def write_batches(shape: Shape) -> None:
    """The batches of an epoch, as rivals read them; words and ids are made on the way, once."""
    task: Any = Run(recipe(shape), FOLDER, folders).task
    assert task.sizes == (VOCABULARY, VOCABULARY), f"{task.sizes} words"
    arrays = {}
    for i, name in enumerate(task.batches(0, 0)):
        batch = task.load(name)
        arrays[f"source{i}"], arrays[f"target{i}"] = batch.source.tokens.numpy(), batch.target.tokens.numpy()
        assert (batch.target.tokens[:, 0] == START).all()
        assert batch.target.tokens.min() == PADDING or (batch.target.lengths == batch.target.lengths[0]).all()
    np.savez(shape.batches, **arrays)
