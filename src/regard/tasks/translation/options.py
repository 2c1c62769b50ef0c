"""What a translator can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.tasks.options import Options, SearchOptions, option


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(SearchOptions):
    """Of `regard run`."""

    tag: str | None = option(None, "Direction, for models of several.", kind=str)
    alignment: bool = option(False, "Add which words belong together: text ||| 0-0 1-2.")


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation(Options):
    """Of `regard evaluate`."""

    source: Path | None = option(None, "Sentences to translate.", kind=Path)
    target: Path | None = option(None, "Their references.", kind=Path)
    beam: int | None = option(None, "Hypotheses kept per step; 1 is greedy. Default: the model's own.", kind=int)
    tag: str | None = option(None, "Direction, for models of several.", kind=str)
    tokenized: bool = option(False, "The text is tokenized already: BLEU adds no tokenization.")
    output: Path | None = option(None, "Also write outputs or scores here.", kind=Path)
    against: Path | None = option(None, "Outputs of another system, compared by paired bootstrap.", kind=Path)
    pronunciations: bool = option(
        False, "References are phones, a tab between the ways to say a word: word and phone error rates."
    )
    score: bool = option(False, "Translate nothing: how likely the given targets are.")
    alignment: Path | None = option(None, "Gold links (0-0 1-2): the alignment error rate.", kind=Path)
    choose_head: bool = option(False, "Keep the head that aligns best here with the model.")

    def __post_init__(self) -> None:
        if self.source is None or self.target is None:
            raise UserError("give a translator source and target: sentences and their references")
        modes = {"score": self.score, "alignment": self.alignment, "pronunciations": self.pronunciations}
        chosen = [name for name, value in modes.items() if value]
        if chosen and (self.tokenized or self.against is not None or len(chosen) > 1):
            raise UserError(f"{' and '.join(chosen)}: one at a time, and without tokenized and against")
        if (self.score or self.alignment) and self.beam is not None:
            raise UserError(f"{chosen[0]} translates nothing, so it goes without beam")
        if self.choose_head and not self.alignment:
            raise UserError("choose_head compares heads with gold links; give them as alignment")
