"""What a model can be asked: declared once by its task, for the command line, for Python and for the service."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.decode.config import Search, search_for
from regard.errors import UserError
from regard.files import digest

Texts = Sequence[str]


def option(default: Any, text: str, name: str | None = None, kind: Any = None) -> Any:
    """A field with its help; with its name on the command line, and its type, where these are not the field's own."""
    return field(default=default, metadata={"help": text, "name": name, "kind": kind})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of a call."""

    @property
    def plain(self) -> bool:
        """Whether a line holds all that is asked for."""
        return True

    @property
    def single(self) -> bool:
        """Whether one text is gone on with while it is shown, instead of lines."""
        return False

    def job(self) -> str:
        """Another one if other outputs are asked for."""
        files = [value for value in vars(self).values() if isinstance(value, Path) and value.is_file()]
        return repr((self, [digest(path) for path in files]))


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """How outputs are found."""

    beam: int | None = option(None, "Hypotheses kept per step; 1 is greedy. Default: the model's own.", kind=int)
    num_best: int = option(1, "Outputs for each line, best first (as JSON).", "nbest")
    sample: bool = option(False, "Sample tokens instead of searching.")
    temperature: float | None = option(None, "Sampling temperature; below 1 sharpens the distribution.", kind=float)
    top_k: int | None = option(None, "Sample from the k likeliest tokens.", kind=int)
    top_p: float | None = option(None, "Nucleus sampling: the likeliest tokens that make up this share.", kind=float)
    seed: int | None = option(None, "Of sampling; the same seed gives the same output.", kind=int)
    max_tokens: int | None = option(None, "Tokens of an output at most.", kind=int)

    @property
    def plain(self) -> bool:
        return self.num_best == 1

    def search(self, own: Search) -> Search:
        """The model's own search, changed by these."""
        if self is _defaults(type(self)) and getattr(own, "num_best", 1) == 1:
            return own
        return search_for(own, **{each.name: getattr(self, each.name) for each in fields(SearchOptions)})


def listed(texts: Iterable[Any]) -> list[Any]:
    """Texts as a caller gives them; one alone is one, and not its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


def made(schema: type[Options], given: Mapping[str, Any]) -> Any:
    """The options of a call; raises UserError for one that is not there."""
    if not given:
        return _defaults(schema)
    known = {each.name: each.metadata["kind"] for each in fields(schema)}
    if odd := next((name for name in given if name not in known), None):
        raise UserError(f"this model has no option {odd!r}; it has {', '.join(known) or 'none'}")
    paths = {name: Path(x) for name, x in given.items() if known[name] is Path and isinstance(x, str)}
    return schema(**{**given, **paths})


_defaults: Callable[..., Any] = cache(lambda schema: schema())


def accepted(schema: type[Options], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request, each of its declared type; none names a file, which would be one of this machine."""
    kinds = {each.name: each.metadata["kind"] or type(each.default) for each in fields(schema)}
    names = [name for name, kind in kinds.items() if not issubclass(kind, Path)]
    if unknown := next((name for name in options if name not in names), None):
        raise UserError(f"requests to this model have no option {unknown!r}; they have {', '.join(names) or 'none'}")
    try:
        valid = TypeAdapter(schema).validate_python(options)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise UserError(": ".join([*map(str, first["loc"][:1]), first["msg"].removeprefix("Value error, ")])) from error
    if valid.single:
        raise UserError(f"{', '.join(options)}: goes on with a single text; send it as text, without this option")
    return {name: getattr(valid, name) for name in options}
