"""Language modelling: what follows a text."""

from regard.decode.config import Sample
from regard.models.config import GptConfig, RecurrentTextConfig
from regard.tasks.lm.config import LanguageRecipe
from regard.tasks.lm.options import GenerateOptions, TextEvaluation
from regard.tasks.spec import TaskSpec, lazy

SPEC = TaskSpec(
    name="lm",
    purpose="language modelling",
    plural="language models",
    recipe=LanguageRecipe,
    models=GptConfig | RecurrentTextConfig,
    search=Sample(),
    files=lazy("regard.tasks.running_text:files"),
    prepare=lazy("regard.tasks.lm.task:prepare"),
    model=lazy("regard.tasks.warmstart:sized_model"),
    runtime=lazy("regard.tasks.lm.runtime:Generator"),
    run=GenerateOptions,
    evaluate=TextEvaluation,
    verbs={"generate": {}},
    judge=lazy("regard.tasks.running_judge:lm"),
)
