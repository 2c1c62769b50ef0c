"""Filters: what an output may not say, as -inf among the log-probabilities.

A filter is a value; `begin` gives it its rows, `apply` forbids, `select` follows the rows of the search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from regard.errors import UserError
from regard.shapes import Padded


class Filter:
    """Forbids nothing."""

    def begin(self, sentences: int) -> Self:
        """Called once, with the number of sentences in the batch."""
        return self

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        """log_probs (N, V) of the next word after history (N, t), which may be empty."""
        return log_probs

    def select(self, index: Tensor) -> Self:
        """The rows named by `index` (N',)."""
        return self


class Halt(Filter):
    """Ends a search from outside, before its next word."""

    def __init__(self) -> None:
        self.asked = False

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        if self.asked:
            raise InterruptedError
        return log_probs


@dataclass(frozen=True)
class Forbid(Filter):
    """Never these words."""

    words: Sequence[int]

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        words = [word for word in self.words if 0 <= word < log_probs.shape[1]]  # a config.json may name others
        index = torch.tensor(words, dtype=torch.long, device=log_probs.device)
        return log_probs.index_fill(1, index, -torch.inf)


@dataclass(frozen=True)
class MinimumLength(Filter):
    """No end mark before `length` words."""

    length: int
    end: int

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        return Forbid([self.end]).apply(log_probs, history) if history.shape[1] < self.length else log_probs


@dataclass(frozen=True)
class NoRepeat(Filter):
    """No n words in a row that were said before [Paulus+ 2018]."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"n-grams of {self.size} words cannot repeat; use 1 or more")

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        if history.shape[1] < self.size:
            return log_probs
        said = history.unfold(1, self.size, 1)  # (N, t) -> (N, windows, n)
        latest = history[:, None, history.shape[1] - self.size + 1 :]
        again = (said[..., :-1] == latest).all(-1)
        # Windows that do not match point at their own word's present value, which leaves it as it is.
        return log_probs.scatter_reduce(
            1, said[..., -1], torch.where(again, -torch.inf, torch.inf).to(log_probs.dtype), "amin"
        )


@dataclass(frozen=True, eq=False)
class ForcedPrefix(Filter):
    """Each sentence begins with the words given for it."""

    prefix: Padded

    @staticmethod
    def of(prefixes: Sequence[Sequence[int]]) -> "ForcedPrefix":
        """Some of which may be empty."""
        lengths = torch.tensor([len(prefix) for prefix in prefixes])
        return ForcedPrefix(Padded(Padded.of([[*prefix, 0] for prefix in prefixes]).tokens, lengths))

    def begin(self, sentences: int) -> Self:
        if len(self.prefix) != sentences:
            raise UserError(f"{len(self.prefix)} prefixes for {sentences} sentences; give one for each")
        return self

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        step = history.shape[1]
        if step >= self.prefix.tokens.shape[1]:
            return log_probs
        forced = self.prefix.tokens[:, step : step + 1]
        only = torch.full_like(log_probs, -torch.inf).scatter(1, forced, log_probs.gather(1, forced))
        return torch.where((step < self.prefix.lengths)[:, None], only, log_probs)

    def select(self, index: Tensor) -> Self:
        return type(self)(self.prefix.select(index))


@dataclass(frozen=True, eq=False)
class Listen(Filter):
    """Tells what each row has said, at each step; where the answer is yes, it ends there, at no cost."""

    heard: Callable[[list[int]], bool]
    end: int

    def apply(self, log_probs: Tensor, history: Tensor) -> Tensor:
        if history.shape[1] == 0:
            return log_probs
        stops = torch.tensor([self.heard(row) for row in history.tolist()])[:, None]
        over = torch.full_like(log_probs, -torch.inf).index_fill(1, torch.tensor([self.end]), 0.0)
        ends = self.end >= 0 and stops.any()  # without an end mark, it goes on to its longest
        return torch.where(stops, over, log_probs) if ends else log_probs


def apply_all(filters: Sequence[Filter], log_probs: Tensor, history: Tensor) -> Tensor:
    for f in filters:
        log_probs = f.apply(log_probs, history)
    return log_probs
