"""Translation: one text into another."""

from regard.decode.config import Beam
from regard.models.config import RecurrentConfig, TransformerConfig
from regard.tasks.spec import TaskSpec, lazy
from regard.tasks.translation.config import TranslateOptions, TranslationEvaluation, TranslationRecipe

SPEC = TaskSpec(
    name="translation",
    purpose="translation",
    plural="translators",
    recipe=TranslationRecipe,
    models=TransformerConfig | RecurrentConfig,
    search=Beam(max_ratio=3.0),
    form="source",
    files=lazy("regard.tasks.translation.prepare:files"),
    inspect=lazy("regard.tasks.translation.check:inspect"),
    prepare=lazy("regard.tasks.translation.prepare:prepare"),
    model=lazy("regard.tasks.warmstart:sized_model"),
    runtime=lazy("regard.tasks.translation.runtime:Translator"),
    run=TranslateOptions,
    evaluate=TranslationEvaluation,
    verbs={"translate": {}},
    judge=lazy("regard.tasks.translation.judge:TranslationJudge"),
)
