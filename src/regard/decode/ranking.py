"""How finished hypotheses are compared: their log-probability against their length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.decode.config import Search


@dataclass(frozen=True)
class Hypothesis:
    """An output: its tokens with the end mark (if it was reached), log-probability, and score for ranking."""

    tokens: list[int]
    log_prob: float
    score: float


def normaliser(search: Search, length: int) -> float:
    """What a log-probability is divided by to become a score."""
    return float(LENGTH_RULES[search.length_rule](length) ** search.length_penalty)


def best_normaliser(search: Search, length: int) -> float:
    """The divisor that would flatter most a log-probability that is still to grow from `length` words on.

    Log-probabilities only fall, so log_prob / best_normaliser bounds every score that can still come of it.
    """
    return max(normaliser(search, length), normaliser(search, search.max_length))


LENGTH_RULES: dict[str, Callable[[int], float]] = {"power": float, "gnmt": lambda length: (5 + length) / 6}
