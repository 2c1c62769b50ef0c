"""Bidirectional language modelling: a language model for each direction."""

from regard.decode.config import Greedy
from regard.models.config import ElmoConfig
from regard.tasks.bilm.config import BilmRecipe
from regard.tasks.lm.options import TextEvaluation
from regard.tasks.mlm.options import EncodeOptions
from regard.tasks.spec import TaskSpec, lazy

SPEC = TaskSpec(
    name="bilm",
    purpose="vectors of tokens and texts",
    plural="encoders",
    recipe=BilmRecipe,
    models=ElmoConfig,
    search=Greedy(),
    files=lazy("regard.tasks.running_text:files"),
    prepare=lazy("regard.tasks.bilm.task:prepare"),
    model=lazy("regard.tasks.warmstart:sized_model"),
    runtime=lazy("regard.tasks.bilm.runtime:BidirectionalEncoder"),
    run=EncodeOptions,
    evaluate=TextEvaluation,
    verbs={"embed": {"vectors": True}},
    judge=lazy("regard.tasks.running_judge:bilm"),
)
