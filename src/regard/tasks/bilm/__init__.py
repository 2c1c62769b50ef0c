"""Bidirectional language modelling: a language model for each direction."""

from regard.decode.config import Greedy
from regard.models.config import ElmoConfig
from regard.tasks.bilm.config import BilmRecipe
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
    runtime=lazy("regard.tasks.mlm.runtime:Encoder"),
    judge=lazy("regard.tasks.running_judge:bilm"),
)
