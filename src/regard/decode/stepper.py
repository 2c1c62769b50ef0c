"""Stepper: all that decoding knows of a model."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor

from regard.shapes import Padded


class State(Protocol):
    """What a model remembers of N hypotheses; a value, never changed in place."""

    def select(self, index: Tensor) -> Self:
        """The rows named by `index` (N',): expands to a beam, reorders it, drops finished rows."""
        ...


S = TypeVar("S", bound=State)


@dataclass(frozen=True, eq=False)
class Step(Generic[S]):
    """The next word's log-probabilities (N, V), and the state after this one."""

    log_probs: Tensor
    state: S


class Stepper(Protocol[S]):
    """A model that can be asked for the next word, over and over."""

    start: int
    """The token that every output is preceded by."""
    end: int
    """The token that ends an output."""

    def begin(self, batch: Any, prefix: Padded | None = None) -> S:
        """Read the sources, and all but the last token of each prefix; the first `step` takes that one.

        A prefix begins with `start` where the model has one; none means `start` alone.
        """
        ...

    def step(self, tokens: Tensor, state: S) -> Step[S]:
        """Take a token for each row (N,) and tell the next one's log-probabilities."""
        ...
