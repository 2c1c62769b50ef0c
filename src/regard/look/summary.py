"""Attention in numbers: how spread each head is, what it covers, and what is lost without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.engine.explain import Explanation


@dataclass(frozen=True)
class HeadSummary:
    """Of one head over some sentences."""

    site: str
    head: int
    entropy: float
    """Of its rows, in bits, on average: 0 looks at one word only."""
    top: float
    """The largest weight of a row, on average."""
    diagonal: float
    """The share of weight within one word of the diagonal."""
    loss: float | None = None
    """By how much the log-probability of a token falls without it."""


def entropy(weights: Tensor) -> Tensor:
    """Of the last axis, in bits."""
    return -torch.special.entr(weights).sum(-1).neg() / torch.log(torch.tensor(2.0))


def coverage(weights: Tensor) -> Tensor:
    """How much each source word was looked at (S,), from (T, S): 1 is once."""
    return weights.sum(0)


def coverage_error(weights: Tensor) -> float:
    """How far coverage is from once each [Rikters+ 2017]: 0 is perfect, words left out or dwelt on add to it."""
    return float((1 + (1 - coverage(weights)) ** 2).log().mean())
