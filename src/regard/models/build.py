"""From settings to a model."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from regard.models.config import RecurrentConfig, Seq2seqConfig, TransformerConfig
from regard.models.recurrent import Recurrent
from regard.models.transformer import Transformer
from regard.nn.initial import initialise
from regard.rng import Key


def build(config: Seq2seqConfig, seed: int = 0) -> nn.Module:
    """The model, with initial weights that depend on the seed alone."""
    model = MODELS[type(config)](config)
    initialise(model, Key(seed, ("initial",)))
    return model


MODELS: dict[type[Seq2seqConfig], Callable[..., nn.Module]] = {
    TransformerConfig: Transformer,
    RecurrentConfig: Recurrent,
}
