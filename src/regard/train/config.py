"""Settings of training, free of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import cos, pi
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from regard import recipe as recipes
from regard.attention.config import PositionConfig
from regard.bounds import check_bounds
from regard.data.config import DataConfig, LabelledDataConfig, LabelTask, MaskedDataConfig, TextDataConfig
from regard.decode.config import Beam, Greedy, Sample
from regard.errors import UserError
from regard.models.config import (
    BertConfig,
    ElmoConfig,
    GptConfig,
    ReaderConfig,
    RecurrentConfig,
    RecurrentTextConfig,
    TransformerConfig,
)
from regard.models.presets import transformer_tiny
from regard.nn.config import DERIVED

# From the update (counted from 1), the updates of warm-up, and all updates, to a share of the peak.
SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda step, warmup, steps: 1.0,
    "inverse_sqrt": lambda step, warmup, steps: (warmup / step) ** 0.5,  # [Vaswani+ 2017, eq. 3]
    "linear": lambda step, warmup, steps: (steps + 1 - step) / max(1.0, steps + 1 - warmup),
    "cosine": lambda step, warmup, steps: (1 + cos(pi * (step - warmup) / max(1.0, steps + 1 - warmup))) / 2,
}


BUDGETS = ("steps", "passes", "minutes")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and how carefully."""

    steps: int | None = None
    """Updates; or give minutes."""
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
            raise UserError(
                f"average {self.average:g} of {self.checkpoints} checkpoints; give 2 to all, or a decay below 1"
            )
        budget = {name: getattr(self, name) for name in BUDGETS if hasattr(self, name)}
        if len([value for value in budget.values() if value is not None]) != 1:
            given = ", ".join(f"{name} {value}" for name, value in budget.items() if value is not None)
            raise UserError(f"{given or 'no end is given'}; give one of {', '.join(budget)}")

    def rate(self, step: int, steps: int) -> float:
        """Of update `step`, counted from 0, among `steps`: linear to the peak, then by the schedule."""
        warmup = self.warmup if self.warmup >= 1 else self.warmup * steps
        if step + 1 < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * SCHEDULES[self.schedule](step + 1, max(1.0, warmup), steps)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(TrainConfig):
    """The same for models that may begin with others' weights, and keep most of them."""

    lora: int = 0
    """Rank of what is added to the matrices of layers that else stay as they are; 0 moves all. Added for good when the
    model is kept."""


@dataclass(frozen=True, kw_only=True)
class TextTrainConfig(TuneConfig):
    """The same for models of text alone, which are judged by their loss."""

    label_smoothing: float = 0.0
    metric: str = "loss"
    betas: ClassVar[tuple[float, float]] = (0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class LanguageTrainConfig(TextTrainConfig):
    """The same for language models, which may have very many words."""

    sampled: int = 0
    """Words drawn for an update's softmax, besides the right ones; 0 takes all. Evaluations are over all."""


@dataclass(frozen=True, kw_only=True)
class ReadTrainConfig(TuneConfig):
    """The same for readers, which mostly begin with a model that has learned much already."""

    batch_tokens: int = 1024
    optimizer: Literal["muon", "adam"] = field(default="adam", metadata=DERIVED)
    average: float = field(default=0.0, metadata=DERIVED)
    lr: float = 1e-4
    warmup: float = 0.1
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    evaluations: int = 5
    checkpoints: int = 5
    metric: str = "default"
    passes: float | None = None
    """Times that the examples are gone through, instead of steps or minutes."""
    frozen: int = 0
    """Lowest layers, with the word tables, that stay as they are."""
    auxiliary: float = 0.0
    """Share of the language model's own loss that is added, of decoders [Radford+ 2018, eq. 5]; they used 0.5."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)  # [Devlin+ 2019, appendix A.2]


@dataclass(frozen=True, kw_only=True)
class BaseRecipe:
    """One run: what is trained on what, and how. The whole of it is stored with the model."""

    version: int = 1
    """Of recipes; this is 1."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.version != 1:
            raise UserError(f"a recipe of version {self.version}; this Regard reads 1, so use the one that wrote it")


@dataclass(frozen=True, kw_only=True)
class TextRecipe(BaseRecipe):
    """A language model."""

    task: Literal["language"] = "language"
    data: TextDataConfig
    model: GptConfig | RecurrentTextConfig = GptConfig(
        width=192, hidden=512, num_heads=4, norm="rms", placement="pre", activation="swiglu", bias=False,
        position=PositionConfig(kind="rotary", layout="halves"), dropout=0.1,
    )  # fmt: skip
    train: LanguageTrainConfig
    search: Sample = Sample()
    """How texts are gone on with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.apart and isinstance(self.model, RecurrentTextConfig):
            raise UserError("data.apart is a mask of attention; a recurrent model reads one stream, so drop it")


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(BaseRecipe):
    """An encoder."""

    task: Literal["masked"] = "masked"
    data: MaskedDataConfig
    model: BertConfig = BertConfig(
        width=192, hidden=768, num_heads=4, placement="pre", activation="gelu",
        position=PositionConfig(kind="rotary", layout="halves"),  # learned ones need far longer to be of use
    )  # fmt: skip
    train: TextTrainConfig
    search: Greedy = Greedy()
    """How blanks are filled: each by its likeliest word."""

    def __post_init__(self) -> None:
        super().__post_init__()
        held = self.model.position.max_length
        if held is not None and held < self.data.context:
            raise UserError(
                f"data.context {self.data.context} is longer than the {held} positions that model.position.max_length "
                f"holds; set that to {self.data.context}"
            )


@dataclass(frozen=True, kw_only=True)
class BothWaysRecipe(BaseRecipe):
    """A language model that reads both ways."""

    task: Literal["bidirectional"] = "bidirectional"
    data: TextDataConfig
    model: ElmoConfig = ElmoConfig()
    train: TextTrainConfig
    search: Greedy = Greedy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.apart:
            raise UserError("data.apart is a mask of attention; a recurrent model reads on, so drop it")
        if self.data.context < 3:
            raise UserError(f"data.context {self.data.context} has room for marks only; use 3 or more, say 64")


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """A translator."""

    task: Literal["translation"] = "translation"
    data: DataConfig
    model: TransformerConfig | RecurrentConfig = replace(transformer_tiny(), tied="all", dropout=0.15)
    train: TrainConfig
    search: Beam = Beam(max_ratio=3.0)
    """How outputs are found, in validation and afterwards."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train.average >= 2 and not (self.data.valid or self.data.hold_out):
            raise UserError("train.average of checkpoints needs data.valid, to see whether the mean is better")
        if self.model.tied == "all" and self.data.target_tokenizer is not None:
            raise UserError("model.tied: all needs one vocabulary; drop data.target_tokenizer, or set tied: output")


@dataclass(frozen=True, kw_only=True)
class ReadRecipe(BaseRecipe):
    """A reader: it answers by a label, a number, a choice, tags, or words of a document."""

    task: LabelTask
    data: LabelledDataConfig
    model: ReaderConfig = ReaderConfig()
    train: ReadTrainConfig
    search: ClassVar[Greedy] = Greedy()  # nothing is searched for


RunningRecipe = TextRecipe | MaskedRecipe | BothWaysRecipe  # of running text
AnyRecipe = Recipe | RunningRecipe | ReadRecipe


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> AnyRecipe:
    """Of whichever task the file names, translation if it names none."""
    return cast(AnyRecipe, recipes.read(cast(Any, AnyRecipe), path, overrides))


def parse_recipe(text: str, name: str, overrides: Sequence[str] = ()) -> AnyRecipe:
    """The same, from a text that is called `name`."""
    return cast(AnyRecipe, recipes.parse(cast(Any, AnyRecipe), text, name, overrides))
