"""Settings that the recipes of all tasks share, free of torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from regard.bounds import check_bounds
from regard.decode.config import Search
from regard.errors import UserError

# From the update (counted from 1), the updates of warm-up, and all updates, to a share of the peak.
SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda step, warmup, steps: 1.0,
    "inverse_sqrt": lambda step, warmup, steps: (warmup / step) ** 0.5,  # [Vaswani+ 2017, eq. 3]
    "linear": lambda step, warmup, steps: (steps + 1 - step) / max(1.0, steps + 1 - warmup),
    "cosine": lambda step, warmup, steps: (1 + cos(pi * (step - warmup) / max(1.0, steps + 1 - warmup))) / 2,
}
BUDGETS = ("steps", "epochs", "minutes")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and how carefully."""

    steps: int | None = None
    """Updates; or give minutes."""
    epochs: float | None = None
    """Times that the data are gone through, instead."""
    minutes: float | None = None
    """Of wall time, from which the plan makes steps on the machine at hand."""
    batch_tokens: int = 4096
    """Target tokens of a batch at most, padding among them; likewise source tokens."""
    accumulate: int = 1
    """Batches whose gradients make one update."""
    optimizer: Literal["muon", "adam"] = "muon"
    """Muon moves the matrices of linear layers, and Adam the rest; or Adam moves all."""
    lr: float = 5e-3
    """Learning rate at its peak."""
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "linear"
    warmup: float = 0.07
    """Updates until the peak: a number, or below 1 a share of all."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.98)  # [Vaswani+ 2017, section 5.3]
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of the gradient; 0 leaves it as it is."""
    label_smoothing: float = 0.1
    average: float = 0.0
    """Below 1, the decay of an exponential average of the weights, which is then what is evaluated and kept; from 2 on,
    how many of the last checkpoints are averaged and evaluated at the end; 0 for none."""
    evaluations: int = 20
    """Times that the model is evaluated at most, evenly over the run, the last at its end; minutes may allow fewer."""
    checkpoints: int = 20
    """Times that the state of training is saved, evenly over the run."""
    patience: int | None = None
    """Evaluations without a better one until training stops."""
    metric: str = "bleu"
    """What "best" means."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self)
        if not (0 <= self.average < 1 or (2 <= self.average <= self.checkpoints and self.average % 1 == 0)):
            several = f"{self.average:g} of {self.checkpoints} checkpoints"
            raise UserError(f"average {several}; give 2 to all, or a decay below 1")
        budget = {name: getattr(self, name) for name in BUDGETS}
        if len([value for value in budget.values() if value is not None]) != 1:
            given = ", ".join(f"{name} {value}" for name, value in budget.items() if value is not None)
            raise UserError(f"{given or 'no end is given'}; give one of {', '.join(budget)}")

    def rate(self, step: float, steps: int) -> float:
        """At the place `step`, counted from 0, among `steps`: linear to the peak, then by the schedule."""
        warmup = self.warmup if self.warmup >= 1 else self.warmup * steps
        if step + 1 < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * SCHEDULES[self.schedule](step + 1, max(1.0, warmup), steps)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(TrainConfig):
    """The same for models that may begin with others' weights, and keep most of them."""

    lora_rank: int = 0
    """Rank of what is added to matrices that else stay as they are, and merged when the model is kept; 0 moves all."""


@dataclass(frozen=True, kw_only=True)
class TextTrainConfig(TuneConfig):
    """The same for models of text alone, which are judged by their loss."""

    label_smoothing: float = 0.0
    metric: str = "loss"
    betas: ClassVar[tuple[float, float]] = (0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class BaseRecipe:
    """One run: what is trained on what, and how. The whole of it is stored with the model."""

    own_tokenizers: ClassVar[bool] = False
    """Whether weights to begin with have to come with a tokenizer that Regard trained."""
    version: int = 2
    """Of recipes; this is 2."""
    task: str
    data: Any
    model: Any
    train: TrainConfig
    search: Search

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.version != 2:
            raise UserError(f"a recipe of version {self.version}; this Regard reads 2 and 1: use the one that wrote it")

    @property
    def corpora(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """To train on and to validate on; data that are made on the spot have none."""
        return getattr(self.data, "train", ()), getattr(self.data, "valid", ())

    @property
    def longest(self) -> int:
        """Tokens of the longest text that is trained on."""
        return int(getattr(self.data, "context", None) or self.data.max_length)

    @property
    def init_from(self) -> str | None:
        """The model to begin with, if the recipe names one."""
        return getattr(self.model, "init_from", None)

    @property
    def takes_weights(self) -> bool:
        """Whether it begins with more than the shape and the tokenizer of that model."""
        return self.init_from is not None and not self.model.architecture_only

    @property
    def tokenizer_from(self) -> str | None:
        """The folder whose tokenizer is taken, if the recipe names one."""
        return getattr(self.data, "tokenizer_from", None)

    def beginning_with(self, start: Path | None) -> tuple[Self, Path | None]:
        """The recipe, and what it does not say: the model to begin with."""
        return self, start
