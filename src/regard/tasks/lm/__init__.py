"""Language modelling: what follows a text."""

from regard.decode.config import Sample
from regard.models.config import GptConfig, RecurrentTextConfig
from regard.tasks.lm.config import GenerateOptions, LanguageRecipe
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy

SPEC = running(
    "lm",
    purpose="language modelling",
    plural="language models",
    recipe=LanguageRecipe,
    models=GptConfig | RecurrentTextConfig,
    search=Sample(),
    form="prompt",
    runtime=lazy("regard.tasks.lm.runtime:Generator"),
    run=GenerateOptions,
    verbs={"generate": {}},
)
