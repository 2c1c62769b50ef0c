"""One door to every search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regard.decode.beam import beam_search
from regard.decode.config import Beam, Greedy, Hypothesis, Sample, Search
from regard.decode.filters import Filter, Forbid
from regard.decode.job import Job
from regard.decode.stepper import S, Stepper
from regard.decode.walk import greedy, sample
from regard.shapes import Padded


def decode(
    stepper: Stepper[S],
    batch: Any,
    search: Search,
    *,
    filters: Sequence[Filter] = (),
    prefix: Padded | None = None,
    sentences: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its hypotheses, best first; `sentences` numbers them within a larger job."""
    filters = [Forbid(search.never), *filters] if search.never else filters
    return SEARCHES[type(search)](Job(stepper, batch, search, filters, prefix, sentences))


SEARCHES: dict[type[Search], Callable[[Any], list[list[Hypothesis]]]] = {
    Greedy: greedy,
    Sample: sample,
    Beam: beam_search,
}
