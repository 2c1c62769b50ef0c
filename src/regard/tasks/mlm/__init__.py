"""Masked language modelling: tokens that were taken out are predicted from both sides."""

from regard.decode.config import Greedy
from regard.models.config import BertConfig
from regard.tasks.mlm.config import EncodeOptions, MaskedRecipe
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy

SPEC = running(
    "mlm",
    ("tokenizer", "tokenizer_from", "mask_rate", "whole_word_masking"),
    purpose="predicting masked tokens, and vectors of texts",
    plural="encoders",
    recipe=MaskedRecipe,
    models=BertConfig,
    search=Greedy(),
    runtime=lazy("regard.tasks.mlm.runtime:Encoder"),
    run=EncodeOptions,
    verbs={"embed": {"vectors": True}},
)
