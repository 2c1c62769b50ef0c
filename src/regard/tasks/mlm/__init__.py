"""Masked language modelling: tokens that were taken out are predicted from both sides."""

from regard.decode.config import Greedy
from regard.models.config import BertConfig
from regard.tasks.lm.options import TextEvaluation
from regard.tasks.mlm.config import MaskedRecipe
from regard.tasks.mlm.options import EncodeOptions
from regard.tasks.spec import TaskSpec, lazy

SPEC = TaskSpec(
    name="mlm",
    purpose="predicting masked tokens, and vectors of texts",
    plural="encoders",
    recipe=MaskedRecipe,
    models=BertConfig,
    search=Greedy(),
    files=lazy("regard.tasks.running_text:files"),
    prepare=lazy("regard.tasks.mlm.task:prepare"),
    model=lazy("regard.tasks.warmstart:sized_model"),
    runtime=lazy("regard.tasks.mlm.runtime:Encoder"),
    run=EncodeOptions,
    evaluate=TextEvaluation,
    verbs={"embed": {"vectors": True}},
    judge=lazy("regard.tasks.running_judge:mlm"),
)
