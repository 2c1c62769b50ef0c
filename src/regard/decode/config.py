"""Ways to search, and what they find, free of torch."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.bounds import check_bounds
from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """An output: its tokens with the end mark (if it was reached), log-probability, and score for ranking."""

    tokens: list[int]
    log_prob: float
    score: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """What every search has."""

    max_length: int = 256
    """Tokens of output at most, the end mark among them."""
    max_ratio: float | None = None
    """Tokens of output at most for each of the source, and 10 besides: a model that cannot end yet costs less."""
    length_penalty: float = 1.0
    """Exponent of the length that a log-probability is divided by: 0 ignores length, 1 is the mean per token."""
    length_rule: Literal["power", "gnmt"] = "power"
    """power: length^penalty; gnmt: ((5 + length) / 6)^penalty [Wu+ 2016, eq. 14]."""
    never: tuple[int, ...] = field(default=(), metadata={"derived": True})
    """Tokens that are not said, however likely: a model that was made elsewhere may have some."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def limits(
        self, count: int, lengths: ArrayLike | None = None, longest: int | None = None, read: ArrayLike = 1
    ) -> NDArray[np.int64]:
        """Tokens that each of `count` outputs may have: of their sources' lengths, and of the `longest` text that there
        are positions for, of which some tokens were read."""
        limits = np.full(count, self.max_length, np.int64)
        if longest is not None:
            limits = np.maximum(np.minimum(limits, longest + 1 - np.asarray(read)), 1)
        if self.max_ratio is None or lengths is None:
            return limits
        return np.minimum((np.asarray(lengths, np.float64) * self.max_ratio + 10).astype(np.int64), limits)

    def normaliser(self, length: int) -> float:
        """What a log-probability is divided by to become a score."""
        return float((length if self.length_rule == "power" else (5 + length) / 6) ** self.length_penalty)


@dataclass(frozen=True, kw_only=True)
class Greedy(Search):
    """The likeliest word at each step."""

    max_ratio: float | None = field(default=None, metadata={"derived": True})


@dataclass(frozen=True, kw_only=True)
class Sample(Search):
    """A word drawn at each step; the same seed, sentence and step give the same draw in any batch."""

    max_ratio: float | None = field(default=None, metadata={"derived": True})
    seed: int = 0
    temperature: float = 1.0
    top_k: int | None = None
    """Draw from the k likeliest words only."""
    top_p: float = 1.0
    """Draw from the fewest likeliest words that together have this probability [Holtzman+ 2020]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature < 1e-6:
            raise UserError(f"temperature {self.temperature} is not above 0; use greedy search for the likeliest word")
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f"top_p {self.top_p} is outside (0, 1]; try 0.9")


@dataclass(frozen=True, kw_only=True)
class Beam(Search):
    """The likeliest sentences that a breadth-first search with `size` survivors per step finds."""

    size: int = 5
    num_best: int = field(default=1, metadata={"derived": True})
    """Hypotheses to give back, best first."""
    ahead: int = field(default=8, metadata={"derived": True})
    """A search ends when no open hypothesis could win by so many more words, even if they cost nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.num_best <= self.size:
            raise UserError(f"num_best {self.num_best} of a beam of {self.size}; ask for 1 to {self.size}")

    def best_normaliser(self, length: int, limits: "Tensor") -> "Tensor":
        """The divisors (B,) that flatter most log-probabilities that may still grow from `length` words to `limits`.

        Log-probabilities only fall, so log_prob / best_normaliser bounds every score that can still come of it, within
        `ahead` words.
        """
        limits = limits.clamp(max=length + self.ahead)
        lengths = limits if self.length_rule == "power" else (5 + limits) / 6
        return (lengths**self.length_penalty).clamp(min=self.normaliser(length))


def search_for(
    own: Search, *, beam: int | None, num_best: int, sample: bool, max_tokens: int | None, **drawn: Any
) -> Search:
    """The model's own search, or the one asked for: a beam, or words that are drawn in a way that is given."""
    drawn = {name: value for name, value in drawn.items() if value is not None}
    given: dict[str, Any] = {
        "max_length": max_tokens or own.max_length,
        "max_ratio": None if max_tokens else own.max_ratio,
        "never": own.never,
    }
    if beam is not None and (sample or drawn):
        raise UserError(f"`beam` searches and `{'sample' if sample else next(iter(drawn))}` draws; use one")
    if sample or drawn:
        base = own if isinstance(own, Sample) else Sample()
        return replace(base, **given, **drawn)
    if isinstance(own, Beam):
        return replace(own, **given, size=max(beam or own.size, num_best), num_best=num_best)
    if beam is not None or num_best > 1:
        size = max(beam or 1, num_best)
        return Greedy(**given) if size == 1 else Beam(**given, size=size, num_best=num_best)
    return replace(own, **given)
