"""The torch engine: any Stepper and any search, in batches of like length. The reference for every other engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.decode.config import Beam, Hypothesis, Search
from regard.decode.filters import Filter, ForcedPrefix, Listen
from regard.decode.search import decode
from regard.decode.stepper import Stepper
from regard.engine.engine import Heard, Tick
from regard.models.writer import LanguageModel
from regard.shapes import Padded


class TorchEngine:
    """Longest sentences first, so that a batch that does not fit fails at once, and padding is small."""

    def __init__(self, model: Stepper[Any], *, tokens: int = 4096, batch_size: int | None = None) -> None:
        self.model, self.tokens, self.batch_size = model, tokens, batch_size

    about = "torch, float32"

    def refuses(self, search: Search) -> str | None:
        return None

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        search: Search,
        *,
        tick: Tick | None = None,
        heard: Heard | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        listens: list[Filter] = [] if heard is None else [Listen(heard, self.model.end)]
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        results: list[list[Hypothesis]] = [[] for _ in sources]
        done = 0
        while done < len(order):
            members = order[done : done + self._rows(len(sources[order[done]]), search)]
            batch = Padded.of([sources[i] for i in members])
            prompts = batch if isinstance(self.model, LanguageModel) else None
            forced: list[Filter] = [] if prefixes is None else [ForcedPrefix.of([prefixes[i] for i in members])]
            filters = [*forced, *listens]
            found = decode(self.model, batch, search, filters=filters, prefix=prompts, sentences=members)
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
