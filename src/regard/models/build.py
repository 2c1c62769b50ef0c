"""From settings to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.bounds import check_memory
from regard.models.bert import Bert
from regard.models.config import (
    BertConfig,
    ElmoConfig,
    GptConfig,
    ModelConfig,
    ReaderConfig,
    RecurrentConfig,
    RecurrentTextConfig,
    TransformerConfig,
)
from regard.models.elmo import Elmo
from regard.models.gpt import Gpt
from regard.models.lstm import RecurrentText
from regard.models.reader import Reader
from regard.models.recurrent import Recurrent
from regard.models.transformer import Transformer
from regard.nn.initial import initialise
from regard.rng import Key


def build(config: ModelConfig, seed: int = 0) -> Any:
    """The model, with initial weights that depend on the seed alone."""
    shapes_of(config)  # which raises for a model that memory cannot hold
    model = MODELS[type(config)](config)
    initialise(model, Key(seed, ("initial",)))
    return model


def shapes_of(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Of each weight, without making any: settings that lie cost neither memory nor time."""
    with torch.device("meta"):
        shapes = {name: tuple(p.shape) for name, p in MODELS[type(config)](config).named_parameters()}
    check_memory(shapes.values())
    return shapes


MODELS: dict[type[ModelConfig], Callable[..., Any]] = {
    TransformerConfig: Transformer,
    RecurrentConfig: Recurrent,
    GptConfig: Gpt,
    BertConfig: Bert,
    RecurrentTextConfig: RecurrentText,
    ElmoConfig: Elmo,
    ReaderConfig: Reader,
}
