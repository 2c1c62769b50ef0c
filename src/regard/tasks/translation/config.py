"""The recipe of a translator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from regard.data.config import DataConfig
from regard.decode.config import Beam
from regard.errors import UserError
from regard.models.config import RecurrentConfig, TransformerConfig
from regard.models.presets import transformer_tiny
from regard.tasks.config import BaseRecipe, TrainConfig


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(BaseRecipe):
    """A translator."""

    own_tokenizers: ClassVar[bool] = True

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
