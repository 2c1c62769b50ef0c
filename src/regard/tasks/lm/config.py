"""The recipe of a language model, and what one can be asked."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.attention.config import PositionConfig
from regard.data.config import TextDataConfig
from regard.decode.config import Sample, Search
from regard.errors import UserError
from regard.models.config import GptConfig, RecurrentTextConfig
from regard.tasks.config import BaseRecipe, TextTrainConfig
from regard.tasks.options import SearchOptions, listed, option
from regard.tasks.running_spec import running
from regard.tasks.spec import lazy


@dataclass(frozen=True, kw_only=True)
class LanguageTrainConfig(TextTrainConfig):
    """The same for language models, which may have very many words."""

    sampled_softmax: int = 0
    """Words drawn for an update's softmax, besides the right ones; 0 takes all. Evaluations are over all."""


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(BaseRecipe):
    """A language model."""

    task: Literal["lm"] = "lm"
    data: TextDataConfig
    model: GptConfig | RecurrentTextConfig = GptConfig(
        width=192, hidden=512, num_heads=4, norm="rms", placement="pre", activation="swiglu", bias=False,
        position=PositionConfig(kind="rotary", layout="halves"), dropout=0.1,
    )  # fmt: skip
    train: LanguageTrainConfig
    search: Sample = Sample()
    """How texts are gone on with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.separate_documents and isinstance(self.model, RecurrentTextConfig):
            raise UserError("data.separate_documents is a mask of attention; a recurrent model has none, so drop it")


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(SearchOptions):
    """Of `regard run`."""

    prompt: str | None = option(None, "Go on with this text, shown as it grows.", kind=str)
    stop: tuple[str, ...] = option((), "End before this text; \\n is a line end.")
    score: bool = option(False, "Log-probability, tokens and perplexity of each line.")
    examples: Path | None = option(None, "Answer as these do: input, tab, answer.", kind=Path)
    labels: str | None = option(None, "Choose one of good,bad (or: examples).", kind=str)
    template: str | None = option(None, "Layout of both, as in Review: {input}\\nMood: {answer}", kind=str)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(text.replace("\\n", "\n") for text in listed(self.stop)))
        if self.prompt is not None and (self.score or self.prompted):
            raise UserError("prompt goes on with one text, so score, examples, labels and template do not go with it")
        if self.prompted and self.score:
            raise UserError(f"score does not go with {'labels' if self.labels else 'examples'}; use one of them")
        if self.labels and self.stop:
            raise UserError("stop does not go with labels; use one of them")

    @property
    def single(self) -> bool:
        return self.prompt is not None

    @property
    def plain(self) -> bool:
        return self.num_best == 1 or self.labels is not None

    @property
    def prompted(self) -> bool:
        """Whether each line is put into a prompt."""
        return any(value is not None for value in (self.examples, self.labels, self.template))

    def search(self, own: Search) -> Search:
        drawn = (self.temperature, self.top_k, self.top_p, self.seed)
        if (self.examples or self.template) and not (self.beam or self.sample) and set(drawn) == {None}:
            return replace(self, beam=1).search(own)  # answers are the likeliest tokens
        return super().search(own)


LM = running(
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
