"""The recipe of an encoder, and what one can be asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.attention.config import PositionConfig
from regard.data.config import MaskedDataConfig
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.models.config import BertConfig
from regard.tasks.config import BaseRecipe, TextTrainConfig
from regard.tasks.options import Options, option
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(BaseRecipe):
    """An encoder."""

    task: Literal["mlm"] = "mlm"
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
        held, context = self.model.position.max_length, self.data.context
        if held is not None and held < context:
            raise UserError(
                f"data.context {context} exceeds the {held} of model.position.max_length; set it to {context}"
            )


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(Options):
    """Of `regard run`."""

    num_best: int = option(1, "Tokens for each [MASK], or nearest lines, best first.", "nbest")
    vectors: bool = option(False, "A vector for each line.")
    near: Path | None = option(None, "The nearest lines of this file, with cosines.", kind=Path)


ENCODER: dict[str, Any] = {"plural": "encoders", "search": Greedy(), "run": EncodeOptions}
ENCODER["verbs"] = {"embed": {"vectors": True}}
MLM = running(
    "mlm",
    ("tokenizer", "tokenizer_from", "mask_rate", "whole_word_masking"),
    purpose="predicting masked tokens, and vectors of texts",
    recipe=MaskedRecipe,
    models=BertConfig,
    runtime=lazy("regard.tasks.mlm.runtime:Encoder"),
    **ENCODER,
)
