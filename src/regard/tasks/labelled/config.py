"""The recipe of the tasks of labelled examples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from regard.data.config import LabelledDataConfig, LabelTask
from regard.decode.config import Greedy
from regard.models.config import ReaderConfig
from regard.nn.config import DERIVED
from regard.tasks.config import BaseRecipe, TuneConfig


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

    task: LabelTask
    data: LabelledDataConfig
    model: ReaderConfig = ReaderConfig()
    train: ReadTrainConfig
    search: Greedy = field(default=Greedy(), init=False)  # nothing is searched for

    def beginning_with(self, start: Path | None) -> tuple[Self, Path | None]:
        return (self if start is None else replace(self, model=replace(self.model, init_from=str(start)))), None
