"""The torch engine: any Stepper and any search, in batches of like length. The reference for every other engine."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from regard.decode.config import Beam, Hypothesis, Search
from regard.decode.filters import Filter, ForcedPrefix, Halt, Listen
from regard.decode.search import decode
from regard.decode.stepper import Stepper
from regard.engine.engine import Heard, Rows, Sources, Tick
from regard.shapes import Padded, by_length

LEAST = 8  # sentences that are worth a thread of their own


class TorchEngine:
    """Longest sentences first, so that a batch that does not fit fails at once, and padding is small.

    Several batches are decoded side by side, each on one thread: products this small gain little from two.
    """

    about = "torch, float32"
    tokens = 8192  # of a batch, at most

    def __init__(self, model: Stepper[Any], *, batch_size: int | None = None, threads: int = 1) -> None:
        self.model, self.batch_size, self.threads = model, batch_size, threads
        self.prompted: bool = getattr(model, "prompted", False)

    def decode(
        self, sources: Sources, search: Search, *, tick: Tick = None, heard: Heard = None, prefixes: Rows | None = None
    ) -> list[list[Hypothesis]]:
        halt = Halt()
        filters: list[Filter] = [halt, *([] if heard is None else [Listen(heard, self.model.end)])]
        results: list[list[Hypothesis]] = [[] for _ in sources]
        batches, done = list(self._batches(sources, search)), 0

        def work(members: list[int]) -> tuple[list[int], list[list[Hypothesis]]]:
            batch = Padded.of([sources[i] for i in members])
            prompts = batch if self.prompted else None
            forced = [] if prefixes is None else [ForcedPrefix.of([prefixes[i] for i in members])]
            own = [*forced, *filters]
            return members, decode(self.model, batch, search, filters=own, prefix=prompts, sentences=members)

        with _side_by_side(1 if heard else min(self.threads, len(batches)), halt) as do:
            for members, found in do(work, batches):
                for i, hypotheses in zip(members, found, strict=True):
                    results[i] = hypotheses
                done += len(members)
                if tick is not None:
                    tick(done)
        return results

    def _batches(self, sources: Sources, search: Search) -> Iterator[list[int]]:
        """Sentences by their numbers: as many as asked for, or as `tokens` holds, a beam counting each hypothesis."""
        size = search.size if isinstance(search, Beam) else 1
        told = search.max_length if self.prompted else 0
        share = max(LEAST, -(-len(sources) // self.threads))
        return by_length(sources, lambda n: self.batch_size or max(1, min(share, self.tokens // ((n + told) * size))))


@contextmanager
def _side_by_side(threads: int, halt: Halt) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` that does so many at once; when it is left early, what is in work is halted."""
    if threads <= 1:
        yield map
        return
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1))
    try:
        yield pool.map
    finally:
        halt.asked = True
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
