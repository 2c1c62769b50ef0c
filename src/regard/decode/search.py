"""One door to every search."""

from collections.abc import Callable, Sequence
from typing import Any

from regard.decode.beam import breadth_first
from regard.decode.config import Beam, Greedy, Hypothesis, Sample, Search
from regard.decode.filters import Filter, Forbid
from regard.decode.stepper import S, Stepper
from regard.decode.walk import Job, greedy, sample
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
    # Searched by breadth's rule to the end, a beam of one would go on after its own end mark, for the sake of a length
    # penalty that compares it with itself.
    Beam: lambda job: greedy(job) if job.search.size == 1 else breadth_first(job),
}
