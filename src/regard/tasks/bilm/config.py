"""The recipe of a bidirectional language model."""

from dataclasses import dataclass
from typing import Literal

from regard.data.config import TextDataConfig
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.models.config import ElmoConfig
from regard.tasks.config import BaseRecipe, TextTrainConfig
from regard.tasks.mlm.config import ENCODER
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy


@dataclass(frozen=True, kw_only=True)
class BilmRecipe(BaseRecipe):
    """A language model that reads both ways."""

    task: Literal["bilm"] = "bilm"
    data: TextDataConfig
    model: ElmoConfig = ElmoConfig()
    train: TextTrainConfig
    search: Greedy = Greedy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.separate_documents:
            raise UserError("data.separate_documents is a mask of attention; a recurrent model reads on, so drop it")
        if self.data.context < 3:
            raise UserError(f"data.context {self.data.context} has room for marks only; use 3 or more, say 64")


BILM = running(
    "bilm",
    ("tokenizer", "tokenizer_from"),
    purpose="vectors of tokens and texts",
    recipe=BilmRecipe,
    models=ElmoConfig,
    runtime=lazy("regard.tasks.bilm.task:BidirectionalEncoder"),
    **ENCODER,
)
