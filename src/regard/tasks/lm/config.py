"""The recipe of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.attention.config import PositionConfig
from regard.data.config import TextDataConfig
from regard.decode.config import Sample
from regard.errors import UserError
from regard.models.config import GptConfig, RecurrentTextConfig
from regard.tasks.config import BaseRecipe, TextTrainConfig


@dataclass(frozen=True, kw_only=True)
class LanguageTrainConfig(TextTrainConfig):
    """The same for language models, which may have very many words."""

    sampled_softmax: int = 0
    """Words drawn for an update's softmax, besides the right ones; 0 takes all. Evaluations are over all."""


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(BaseRecipe):
    """A language model."""

    task: Literal["lm"] = "lm"
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
        if self.data.separate_documents and isinstance(self.model, RecurrentTextConfig):
            raise UserError("data.separate_documents is a mask of attention; a recurrent model has none, so drop it")
