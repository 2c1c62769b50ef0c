"""Task: all that training knows of what is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from torch import Tensor, nn

from regard.attention.site import Site
from regard.engine.engine import Engine
from regard.rng import Key
from regard.tasks.report import Report

M = TypeVar("M", bound=nn.Module, contravariant=True)  # a kind of model
Direction = Literal["higher", "lower"]
Carry = dict[str, Tensor]  # by name, rows first: what a model remembers from one batch to the next


@dataclass(frozen=True, eq=False)
class Loss:
    """The sum of a batch's losses and of their weights, so that accumulation and several processes are exact."""

    total: Tensor
    weight: float
    carry: Carry | None = None
    """What a model that reads on remembers, to be given with the next batch."""

    @staticmethod
    def of(site: Site, total: Tensor, weight: float, carry: Carry | None = None) -> "Loss":
        """With the losses that parts of the model left at the site of the pass."""
        return Loss(sum((weight * loss for loss in (site.losses or {}).values()), total), weight, carry)


class Shape(NamedTuple):
    """Rows of a batch, its source and target steps, and the tokens among them that are no padding."""

    rows: int
    source: int
    target: int
    source_tokens: int
    target_tokens: int

    @property
    def terms(self) -> list[float]:
        """What matrix products of an encoder-decoder can depend on: their count is a polynomial of these."""
        b, s, t, *tokens = self
        return [b, b * s, b * t, b * s * s, b * t * t, b * s * t, *tokens]

    def __str__(self) -> str:
        return f"{self.rows} rows of up to {self.source} and {self.target} steps"


class Task(Protocol[M]):
    """Batches, what a model loses on one, and how good a model is."""

    counts: str
    """What weights count: tokens, or examples."""
    about: str
    """What is trained on, as a user is told."""

    @property
    def primary(self) -> tuple[str, Direction]:
        """The metric that "best" means, and which way is better."""

    def batches(self, seed: int, epoch: int) -> Sequence[Any]:
        """The names of an epoch's batches, in order: a pure function of seed and epoch, equally many each."""

    def largest(self) -> Any:
        """The batch that needs most memory."""

    def load(self, name: Any) -> Any:
        """The batch itself."""

    def describe(self, name: Any) -> str:
        """Where a batch comes from, for messages."""

    def shape(self, name: Any) -> Shape:
        """How large a batch is."""

    def loss(self, model: M, batch: Any, carry: Carry | None, key: Key | None) -> Loss:
        """What is minimised; with a key, dropout is on."""

    def evaluate(self, model: M, engine: Engine) -> dict[str, float]:
        """Metrics on the validation data."""

    def summary(self, recipe: Any, report: Report) -> dict[str, str]:
        """What there is to train on, for `regard check`; problems that only the task sees are added to the report."""

    def rehearse(self, model: M, engine: Engine) -> float:
        """Seconds that an evaluation will take, from a model that has learned nothing yet."""


AnyTask = Task[Any]
