"""What a search is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from regard.decode.config import Search
from regard.decode.filters import Filter
from regard.decode.stepper import S, Stepper
from regard.shapes import Padded

How = TypeVar("How", bound=Search, covariant=True)


@dataclass(frozen=True, eq=False)
class Job(Generic[S, How]):
    """A batch of sources for a model, how to search, and what holds for this batch."""

    stepper: Stepper[S]
    batch: Any
    search: How
    filters: Sequence[Filter] = ()
    prefix: Padded | None = None  # what every output begins with, read before the first step
    sentences: Sequence[int] | None = None  # the members' numbers within a larger job

    def limits(self) -> Tensor:
        """Tokens that each sentence's output may have (B,)."""
        most, ratio = torch.full((len(self.batch),), self.search.max_length), self.search.max_ratio
        longest = getattr(self.stepper, "longest", None)  # that its positions allow
        if longest is not None:
            read = 1 if self.prefix is None else self.prefix.lengths  # the start token alone
            most = most.minimum(torch.as_tensor(longest + 1 - read)).clamp(min=1)
        if ratio is None or not isinstance(self.batch, Padded):
            return most
        return (self.batch.lengths.double() * ratio + 10).long().minimum(most)

    def first_tokens(self) -> Tensor:
        """The tokens that the first step takes (B,)."""
        if self.prefix is not None:
            return self.prefix.tokens.gather(1, self.prefix.lengths[:, None] - 1)[:, 0]
        return torch.full((len(self.batch),), self.stepper.start)
