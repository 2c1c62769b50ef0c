"""What of a model moves while it is trained further: all of it, the upper layers, or low-rank changes alone."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.score import Score
from regard.errors import UserError
from regard.nn.embed import Embedding
from regard.nn.recurrent import RecurrentLayers
from regard.nn.stack import Block, Stack
from regard.rng import Key

SCALE = 2.0  # of the change, whatever its rank: alpha / r of [Hu+ 2022, section 4.1]


class LowRank(nn.Linear):
    """W x + 2 B A x, of which W stays as it is and B begins at zero [Hu+ 2022, eq. 3]."""

    def __init__(self, linear: nn.Linear, rank: int, key: Key) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        drawn = torch.Generator().manual_seed(key.word() >> 1)
        first = torch.randn(rank, linear.in_features, generator=drawn) * linear.in_features**-0.5
        self.first, self.second = nn.Parameter(first), nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + SCALE * F.linear(F.linear(x, self.first), self.second)

    def merged(self) -> Tensor:
        """One matrix that does the same."""
        return self.weight + SCALE * self.second @ self.first


def hold(model: nn.Module, *, frozen: int = 0, rank: int = 0, seed: int = 0, grown: bool = False) -> None:
    """Freeze word tables and the lowest layers of each stack; with a rank, all layers, but for low-rank changes of
    their linear maps, learned scores left out. Tables that have `grown` move nevertheless: new words have much to
    learn."""
    layered = _layered(model)
    depth = max(map(len, layered), default=0)
    if frozen > depth:
        raise UserError(f"train.frozen_layers {frozen} of {depth} layers; give {depth} or less")
    stacks = [(name, module) for name, module in model.named_modules() if isinstance(module, Stack)]
    if rank and not stacks:
        raise UserError("train.lora_rank changes linear maps of Transformer layers, and it has none; use frozen_layers")
    if frozen or rank:
        for module in model.modules():
            if isinstance(module, Embedding):
                module.requires_grad_(grown)
    for layers in layered:
        layers[: depth if rank else frozen].requires_grad_(False)
    for path, stack in stacks if rank else ():
        stack.norm.requires_grad_(False)
        scores = {part for score in stack.modules() if isinstance(score, Score) for part in score.modules()}
        linears = [(n, m) for n, m in stack.named_modules() if isinstance(m, nn.Linear) and m not in scores]
        for name, linear in linears:
            owner, _, leaf = name.rpartition(".")
            setattr(stack.get_submodule(owner), leaf, LowRank(linear, rank, Key(seed, ("lora", path, name))))


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model by name: its parameters, each once though tables be tied, and its own buffers."""
    kept = model.state_dict()
    return {**dict(model.named_parameters()), **{name: x for name, x in model.named_buffers() if name in kept}}


def merged_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The same, as a model without low-rank changes has them."""
    changed = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    for name, parameter in state_of(model).items():
        owner, _, leaf = name.rpartition(".")
        if owner not in changed:
            yield name, parameter.detach()
        elif leaf not in ("first", "second"):
            yield name, (changed[owner].merged() if leaf == "weight" else parameter).detach()


def _layered(model: nn.Module) -> list[nn.ModuleList]:
    """Layers that stand one above the other, the lowest first; ELMo's have recurrent layers of one in them."""
    kinds = Block | RecurrentLayers | nn.RNNBase
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and any(isinstance(n, kinds) for n in m)]
    inner = {id(m) for layers in lists for m in layers.modules() if m is not layers}
    return [layers for layers in lists if id(layers) not in inner]
