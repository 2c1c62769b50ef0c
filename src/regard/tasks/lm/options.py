"""What a language model can be asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from regard.decode.config import Search
from regard.errors import UserError
from regard.tasks.options import SearchOptions, listed, option


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
