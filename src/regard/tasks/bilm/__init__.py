"""Bidirectional language modelling: a language model for each direction."""

from regard.decode.config import Greedy
from regard.models.config import ElmoConfig
from regard.tasks.bilm.config import BilmRecipe
from regard.tasks.mlm.config import EncodeOptions
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy

SPEC = running(
    "bilm",
    ("tokenizer", "tokenizer_from"),
    purpose="vectors of tokens and texts",
    plural="encoders",
    recipe=BilmRecipe,
    models=ElmoConfig,
    search=Greedy(),
    runtime=lazy("regard.tasks.bilm.task:BidirectionalEncoder"),
    run=EncodeOptions,
    verbs={"embed": {"vectors": True}},
)
