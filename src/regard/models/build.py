"""From settings to a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.bounds import check_memory
from regard.models import config as configs
from regard.models.bert import Bert
from regard.models.config import ModelConfig
from regard.models.elmo import Elmo
from regard.models.gpt import Gpt
from regard.models.lstm import RecurrentText
from regard.models.reader import Reader
from regard.models.recurrent import Recurrent
from regard.models.transformer import Transformer
from regard.nn.lora import state_of
from regard.rng import Key


def build(config: ModelConfig, seed: int = 0) -> Any:
    """The model, with initial weights that depend on the seed alone."""
    shapes_of(config)  # which raises for a model that memory cannot hold
    model = MODELS[type(config)](config)
    initialise(model, Key(seed, ("initial",)))
    return model


@torch.no_grad()
def initialise(model: nn.Module, key: Key) -> None:
    """Weights that are each a function of a key and their own name, so that adding a layer does not change the others:
    Glorot-uniform matrices [Glorot+ 2010], orthogonal recurrent ones [Saxe+ 2014], zero biases with an LSTM's
    forget gates at 1 [Jozefowicz+ 2015], unit norms, and tables of standard deviation width^-1/2."""
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(key.fold(name).word() >> 1)
        owner, _, leaf = name.rpartition(".")
        if "table" in leaf:
            parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
        elif leaf.startswith("weight_hh"):
            for gate in parameter.split(parameter.shape[1]):
                nn.init.orthogonal_(gate, generator=generator)
        elif parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)
        elif "weight" in leaf:
            parameter.fill_(1.0)
        else:
            parameter.zero_()
            if isinstance(model.get_submodule(owner), nn.LSTM) and leaf.startswith("bias_ih"):
                _, forget, _, _ = parameter.chunk(4)  # PyTorch's order: input, forget, cell, output
                forget.fill_(1.0)


def shapes_of(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Of each weight, without making any: settings that lie cost neither memory nor time."""
    with torch.device("meta"):
        shapes = {name: tuple(p.shape) for name, p in state_of(MODELS[type(config)](config)).items()}
    check_memory(shapes.values())
    return shapes


MODELS: dict[type[ModelConfig], Callable[..., Any]] = {
    configs.TransformerConfig: Transformer,
    configs.RecurrentConfig: Recurrent,
    configs.GptConfig: Gpt,
    configs.BertConfig: Bert,
    configs.RecurrentTextConfig: RecurrentText,
    configs.ElmoConfig: Elmo,
    configs.ReaderConfig: lambda config: Reader(config, MODELS[type(config.trunk)](config.trunk)),
}
