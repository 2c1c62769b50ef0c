"""The tasks of labelled examples: their recipe, what their models can be asked, and their TaskSpec."""

from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from regard.data.config import LabelledDataConfig
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.models.config import ReaderConfig
from regard.nn.config import DERIVED
from regard.tasks.config import BaseRecipe, TuneConfig
from regard.tasks.options import Options, option
from regard.tasks.spec import TaskSpec, lazy


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
    frozen_layers: int = 0
    """Lowest layers, with the word tables, that stay as they are."""
    lm_loss_weight: float = 0.0
    """Share of the language model's own loss that is added, of decoders [Radford+ 2018, eq. 5]; they used 0.5."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)  # [Devlin+ 2019, appendix A.2]


@dataclass(frozen=True, kw_only=True)
class LabelledRecipe(BaseRecipe):
    """A model of text that answers: by a label, a number, a choice, tags, or words of a document."""

    metrics: ClassVar[tuple[str, ...]]
    """The first says which model is best."""
    task: str
    data: LabelledDataConfig
    model: ReaderConfig = ReaderConfig()
    train: ReadTrainConfig
    search: Greedy = field(default=Greedy(), init=False)  # nothing is searched for

    def beginning_with(self, start: Path | None) -> tuple[Self, Path | None]:
        return (self if start is None else replace(self, model=replace(self.model, init_from=str(start)))), None


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(Options):
    """Of `regard run`."""

    num_best: int = option(1, "Labels for each line, best first.", "nbest")


@dataclass(frozen=True, kw_only=True)
class ExamplesEvaluation(Options):
    """Of `regard evaluate`."""

    data: str | None = option(None, "Labelled examples: a file, or a corpus such as glue/RTE/dev.", kind=str)
    output: Path | None = option(None, "Also write the answers here.", kind=Path)

    def __post_init__(self) -> None:
        if self.data is None:
            raise UserError("give labelled examples as data")


def labelled(name: str, plural: str, *verbs: str, metrics: tuple[str, ...]) -> TaskSpec:
    """The task in the folder of that name, with all that is its own in `questions.py`."""
    fields = [("task", Literal.__getitem__(name), name)]
    options: Any = {"frozen": True, "kw_only": True, "namespace": {"metrics": metrics}}
    return TaskSpec(
        name=name,
        purpose=name,
        plural=plural,
        recipe=make_dataclass(f"{name.capitalize()}Recipe", fields, bases=(LabelledRecipe,), **options),
        models=ReaderConfig,
        search=Greedy(),
        form="example",
        files=lazy("regard.tasks.labelled.start:files"),
        prepare=lazy("regard.tasks.labelled.start:prepare"),
        model=lazy("regard.tasks.labelled.start:model"),
        runtime=lazy("regard.tasks.labelled.runtime:Answerer"),
        run=AnswerOptions,
        evaluate=ExamplesEvaluation,
        verbs={verb: {} for verb in verbs},
        judge=lazy("regard.tasks.labelled.judge:LabelledJudge"),
    )


LABELLED = (
    labelled("classification", "classifiers", "classify", metrics=("accuracy", "f1", "matthews")),
    labelled("regression", "regressors", metrics=("pearson", "spearman")),
    labelled("choice", "multiple-choice models", "classify", metrics=("accuracy",)),
    labelled("tagging", "taggers", "classify", metrics=("tag_accuracy", "entity_f1")),
    labelled("spans", "question answerers", metrics=("answer_f1", "exact_match")),
)
