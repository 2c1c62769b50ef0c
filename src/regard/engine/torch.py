"""The torch engine: any Stepper and any search, in batches of like length. The reference for every other engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from regard.decode.config import Beam, Search
from regard.decode.filters import Filter
from regard.decode.job import Hypothesis
from regard.decode.search import decode
from regard.decode.stepper import Stepper
from regard.errors import UserError
from regard.models.writer import LanguageModel
from regard.shapes import Padded


class Engine(Protocol):
    """One way to decode, for validation, test, `run` and `serve` alike."""

    def refuses(self, search: Search) -> str | None:
        """Why this search cannot be done, or None."""
        ...

    def decode(
        self, sources: Sequence[Sequence[int]], search: Search, *, tick: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        """For each source, or prompt, its hypotheses, best first; `tick` is told how many are done."""
        ...


class TorchEngine:
    """Longest sentences first, so that a batch that does not fit fails at once, and padding is small."""

    def __init__(
        self, model: Stepper[Any], *, tokens: int = 4096, batch_size: int | None = None, filters: Sequence[Filter] = ()
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise UserError(f"batch size {batch_size} holds no sentence; use 1 or more")
        self.model, self.tokens, self.batch_size, self.filters = model, tokens, batch_size, filters

    def refuses(self, search: Search) -> str | None:
        return None

    def decode(
        self, sources: Sequence[Sequence[int]], search: Search, *, tick: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        results: list[list[Hypothesis]] = [[] for _ in sources]
        done = 0
        while done < len(order):
            members = order[done : done + self._rows(len(sources[order[done]]), search)]
            batch = Padded.of([sources[i] for i in members])
            prompts = batch if isinstance(self.model, LanguageModel) else None
            found = decode(self.model, batch, search, filters=self.filters, prefix=prompts, sentences=members)
            for i, hypotheses in zip(members, found, strict=True):
                results[i] = hypotheses
            done += len(members)
            if tick is not None:
                tick(done)
        return results

    def _rows(self, longest: int, search: Search) -> int:
        """Sentences in a batch: those asked for, or as many as `tokens` holds, a beam counting each hypothesis."""
        size = search.size if isinstance(search, Beam) else 1
        longest += search.max_length if isinstance(self.model, LanguageModel) else 0
        return self.batch_size or max(1, self.tokens // (longest * size))
