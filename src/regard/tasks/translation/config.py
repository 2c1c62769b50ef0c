"""The recipe of a translator, and what one can be asked."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from regard.data.config import DataConfig
from regard.decode.config import Beam
from regard.errors import UserError
from regard.models.config import RecurrentConfig, TransformerConfig
from regard.models.presets import transformer_tiny
from regard.tasks.config import BaseRecipe, TrainConfig
from regard.tasks.options import Options, SearchOptions, option
from regard.tasks.spec import TaskSpec, lazy


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(BaseRecipe):
    """A translator."""

    own_tokenizers: ClassVar[bool] = True
    task: Literal["translation"] = "translation"
    data: DataConfig
    model: TransformerConfig | RecurrentConfig = replace(transformer_tiny(), tied="all", dropout=0.15)
    train: TrainConfig
    search: Beam = Beam(max_ratio=3.0)
    """How outputs are found, in validation and afterwards."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train.average >= 2 and not (self.data.valid or self.data.hold_out):
            raise UserError("train.average of checkpoints needs data.valid, to see whether the mean is better")
        if self.model.tied == "all" and self.data.target_tokenizer is not None:
            raise UserError("model.tied: all needs one vocabulary; drop data.target_tokenizer, or set tied: output")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(SearchOptions):
    """Of `regard run`."""

    tag: str | None = option(None, "Direction, for models of several.", kind=str)
    alignment: bool = option(False, "Add which words belong together: text ||| 0-0 1-2.")


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation(Options):
    """Of `regard evaluate`."""

    source: Path | None = option(None, "Sentences to translate.", kind=Path)
    target: tuple[Path, ...] = option((), "Their references; again for further ones.", kind=Path)
    beam: int | None = option(None, "Hypotheses kept per step; 1 is greedy. Default: the model's own.", kind=int)
    tag: str | None = option(None, "Direction, for models of several.", kind=str)
    tokenized: bool = option(False, "The text is tokenized already: BLEU adds no tokenization.")
    output: Path | None = option(None, "Also write outputs or scores here.", kind=Path)
    against: Path | None = option(None, "Outputs of another system, compared by paired bootstrap.", kind=Path)
    pronunciations: bool = option(False, "References are phones, tabs between variants: word and phone error rates.")
    score: bool = option(False, "Translate nothing: how likely the given targets are.")
    alignment: Path | None = option(None, "Gold links (0-0 1-2): the alignment error rate.", kind=Path)
    choose_head: bool = option(False, "Keep the head that aligns best here with the model.")

    def __post_init__(self) -> None:
        files = [self.target] if isinstance(self.target, str | Path) else self.target
        object.__setattr__(self, "target", tuple(map(Path, files)))
        if self.source is None or not self.target:
            raise UserError("give a translator source and target: sentences and their references")
        modes = {"score": self.score, "alignment": self.alignment, "pronunciations": self.pronunciations}
        chosen = [name for name, value in modes.items() if value]
        if chosen and (self.tokenized or self.against is not None or len(chosen) > 1):
            raise UserError(f"{' and '.join(chosen)}: one at a time, and without tokenized and against")
        if (self.score or self.alignment) and self.beam is not None:
            raise UserError(f"{chosen[0]} translates nothing, so it goes without beam")
        if chosen and len(self.target) > 1:
            raise UserError(f"{chosen[0]} goes with one file of targets")
        if self.choose_head and not self.alignment:
            raise UserError("choose_head compares heads with gold links; give them as alignment")


TRANSLATION = TaskSpec(
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
