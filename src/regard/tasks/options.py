"""What a model can be asked: declared once by its task, for the command line, for Python and for the service."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from regard.decode.config import Search, search_for
from regard.errors import UserError


def option(default: Any, text: str, *names: str, kind: Any = None) -> Any:
    """A field with its help, and its names on the command line where these differ; `kind` where it is not the default's
    type."""
    return field(default=default, metadata={"help": text, "names": names, "kind": kind})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of a call."""

    def __post_init__(self) -> None:
        """Rules across fields."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """How outputs are found."""

    beam: int | None = option(None, "Hypotheses kept per step; 1 is greedy. Default: the model's own.", kind=int)
    num_best: int = option(1, "Outputs for each line, best first (with --json).", "--nbest")
    sample: bool = option(False, "Sample tokens instead of searching.")
    temperature: float | None = option(None, "Sampling temperature; below 1 sharpens the distribution.", kind=float)
    top_k: int | None = option(None, "Sample from the k likeliest tokens.", kind=int)
    top_p: float | None = option(None, "Nucleus sampling: the likeliest tokens that make up this share.", kind=float)
    seed: int | None = option(None, "Of sampling; the same seed gives the same output.", kind=int)
    max_tokens: int | None = option(None, "Tokens of an output at most.", kind=int)

    def search(self, own: Search) -> Search:
        """The model's own search, changed by these."""
        drawn = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        return search_for(
            own, beam=self.beam, num_best=self.num_best, sample=self.sample, max_tokens=self.max_tokens, **drawn
        )


def made(schema: type[Options], given: dict[str, Any]) -> Any:
    """The options of a call; raises UserError for one that is not there."""
    known = [each.name for each in fields(schema)]
    if odd := next((name for name in given if name not in known), None):
        raise UserError(f"this model has no option {odd!r}; it has {', '.join(known) or 'none'}")
    return schema(**given)
