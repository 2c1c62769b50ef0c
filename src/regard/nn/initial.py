"""Initial weights, each a function of a key and its own name: adding a layer does not change the others."""

from __future__ import annotations

import torch
from torch import nn

from regard.rng import Key


@torch.no_grad()
def initialise(model: nn.Module, key: Key) -> None:
    """Glorot-uniform matrices [Glorot+ 2010], orthogonal recurrent ones [Saxe+ 2014], zero biases with an LSTM's
    forget gates at 1 [Jozefowicz+ 2015], unit norms, and tables of standard deviation width^-1/2."""
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(key.fold(name).word() >> 1)
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(owner)
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
            if isinstance(module, nn.LSTM) and leaf.startswith("bias_ih"):
                _, forget, _, _ = parameter.chunk(4)  # PyTorch's order: input, forget, cell, output
                forget.fill_(1.0)
