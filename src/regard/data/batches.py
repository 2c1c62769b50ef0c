"""Which pairs go together: batches of about equal size, from pairs of about equal length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.rng import Key

Lengths = NDArray[np.int64] | NDArray[np.int32]


def plan(source_lengths: Lengths, target_lengths: Lengths, tokens: int, key: Key | None) -> list[NDArray[np.int64]]:
    """Batches of indices, with rows times the longest source, and times the longest target, at most `tokens`.

    A pair that is longer by itself is a batch of its own. Pairs of equal lengths meet in random order, and batches
    come in random order; both are functions of the key. Without one: longest first, for evaluation.
    """
    count = len(source_lengths)
    if len(target_lengths) != count:
        raise UserError(f"{count} source lengths and {len(target_lengths)} target lengths; give as many of each")
    if tokens < 1:
        raise UserError(f"batches of {tokens} tokens hold nothing; use 1 or more, say 4096")
    if count == 0:
        return []
    widest = int(source_lengths.max()) + 1
    small = widest * (int(target_lengths.max()) + 1) < 1 << 31  # of ten million pairs it matters
    rank: Lengths = target_lengths.astype("i4" if small else "i8") * widest + source_lengths
    if key is None:
        order = np.argsort(-rank, kind="stable")
        return _cut(order, np.maximum(source_lengths, target_lengths)[order], tokens)
    generator = key.generator()
    mixed = generator.permutation(count)
    order = mixed[np.argsort(rank[mixed], kind="stable")]
    batches = _cut(order, np.maximum(source_lengths, target_lengths)[order], tokens)
    return [batches[i] for i in generator.permutation(len(batches))]


def waste(batches: Sequence[NDArray[np.int64]], lengths: Lengths) -> float:
    """The share of padding among all places of these batches, for one side."""
    places = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    held = sum(int(lengths[batch].sum()) for batch in batches)
    return 1.0 - held / places if places else 0.0


def _cut(order: NDArray[np.int64], widths: Lengths, tokens: int) -> list[NDArray[np.int64]]:
    """Cut an order wherever one more row would make its batch too large; widths are in that order."""
    cuts, start, longest = [], 0, 1
    for i, width in enumerate(widths.tolist()):
        longest = max(longest, width)
        if (i + 1 - start) * longest > tokens and i > start:
            cuts.append(i)
            start, longest = i, max(width, 1)
    return np.split(order, cuts)
