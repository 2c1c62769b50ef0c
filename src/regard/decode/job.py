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
        longest = getattr(self.stepper, "longest", None)  # that its positions allow
        lengths = self.batch.lengths.numpy() if isinstance(self.batch, Padded) else None
        read = 1 if self.prefix is None else self.prefix.lengths.numpy()  # the start token alone
        return torch.from_numpy(self.search.limits(len(self.batch), lengths, longest, read))

    def first_tokens(self) -> Tensor:
        """The tokens that the first step takes (B,)."""
        if self.prefix is not None:
            return self.prefix.tokens.gather(1, self.prefix.lengths[:, None] - 1)[:, 0]
        return torch.full((len(self.batch),), self.stepper.start)
