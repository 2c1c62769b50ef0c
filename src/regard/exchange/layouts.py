"""Sines and cosines by turns, or all sines first: the same model, with its numbers in another order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

# Where the width of the model stands in a weight.
WIDTHS = {
    r".*(table|to_[qkv]\.weight|(up|gate)\.weight)": 1,
    r".*(to_out\.weight|to_out\.bias|norm\.weight|norm\.bias|down\.weight|down\.bias)": 0,
}


def in_halves(config: Any, weights: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
    """A model whose positions are in halves, and which computes the same."""
    position = config.position
    if position.layout == "halves" or position.kind not in ("sinusoid", "rotary"):
        return config, weights
    changed = replace(config, position=replace(position, layout="halves"))
    if position.kind == "sinusoid":
        order = _sines_first(config.width)
        return changed, {name: _reordered(name, weight, order) for name, weight in weights.items()}
    order = _sines_first(config.attention.head_width)
    heads = {
        name: w.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1) for name, w in weights.items() if _turns(name)
    }
    return changed, {**weights, **heads}


def _sines_first(width: int) -> Tensor:
    return torch.arange(width).view(-1, 2).T.flatten()


def _turns(name: str) -> bool:
    """Whether a position turns what this weight makes."""
    return re.search(r"self_attention\.to_[qk]\.", name) is not None


def _reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    axis = next((axis for pattern, axis in WIDTHS.items() if re.fullmatch(pattern, name)), None)
    return weight if axis is None else weight.index_select(axis, order)
