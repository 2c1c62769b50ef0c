"""From settings to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.models.config import RecurrentConfig, Seq2seqConfig, TransformerConfig
from regard.models.recurrent import Recurrent
from regard.models.seq2seq import Seq2seq
from regard.models.transformer import Transformer
from regard.nn.initial import initialise
from regard.rng import Key


def build(config: Seq2seqConfig, seed: int = 0) -> Seq2seq[Any]:
    """The model, with initial weights that depend on the seed alone."""
    model = MODELS[type(config)](config)
    initialise(model, Key(seed, ("initial",)))
    return model


MODELS: dict[type[Seq2seqConfig], Callable[..., Seq2seq[Any]]] = {
    TransformerConfig: Transformer,
    RecurrentConfig: Recurrent,
}
