"""A shortlist: the target words that a source may need, by what its words became in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.data.store import Store
from regard.errors import UserError
from regard.files import read_regular, write

FILE = "shortlist.safetensors"
ALWAYS, EACH, LEAST = 600, 40, 1e-3  # common words that are always in, words for each of the source, and how probable
ROUNDS, MOST = 5, 12_000_000  # of learning, and pairs of words that it sees
Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Words for every source, and for each source word its own: those of word i end at `ends[i]`."""

    always: Ids
    ends: NDArray[np.int64]
    words: Ids

    def of(self, source: Sequence[int]) -> Ids:
        """In order, each once."""
        wanted = self._common.copy()
        for i in source:
            wanted[self.words[self.ends[i - 1] if i else 0 : self.ends[i]]] = True
        return np.flatnonzero(wanted).astype(np.int32)

    @cached_property
    def _common(self) -> NDArray[np.bool_]:
        found = np.zeros(max(self.always.max(), self.words.max(initial=0)) + 1, bool)
        found[self.always] = True
        return found

    def save(self, folder: Path) -> None:
        write(folder / FILE, save({"always": self.always, "ends": self.ends, "words": self.words}))

    @staticmethod
    def load(folder: Path, source_words: int, target_words: int) -> Shortlist:
        path = folder / FILE
        if not path.exists():
            raise UserError(f"{folder}: has no shortlist; make one by `regard export --to native --shortlist`")
        try:
            found = Shortlist(**load(read_regular(path, 1 << 30)))
            ends = found.ends
            if ends.dtype != np.int64 or any(x.dtype != np.int32 or x.ndim != 1 for x in (found.always, found.words)):
                raise ValueError("its numbers are of another kind")
            if len(ends) != source_words or ends[-1] != len(found.words) or (np.diff(ends, prepend=0) < 0).any():
                raise ValueError("it does not fit the model's words")
            if not len(found.always) or any(
                (x < 0).any() or (x >= target_words).any() for x in (found.always, found.words)
            ):
                raise ValueError("it names words that the model has not")
        except (OSError, SafetensorError, ValueError, TypeError, IndexError) as error:
            raise UserError(f"{path}: is no shortlist ({error}); export the model again") from error
        return found


def learn(store: Store, source_words: int, target_words: int, needed: Sequence[int]) -> Shortlist:
    """By IBM's first model [Brown+ 1993]: how probable each target word is, given a word of its source."""
    products = store.lengths[0].astype(np.int64) * store.lengths[1]
    rows = np.arange(len(store))[:: max(1, -(-int(products.sum()) // MOST))]  # some of all, evenly
    pairs = [store.pair(int(i)) for i in rows]
    common = np.bincount(np.concatenate([target for _, target in pairs]), minlength=target_words)
    said = np.concatenate([np.repeat(target, len(source)) for source, target in pairs]).astype(np.int64)
    read = np.concatenate([np.tile(source, len(target)) for source, target in pairs]).astype(np.int64)
    sizes = np.concatenate([np.full(len(target), len(source)) for source, target in pairs])
    place = np.repeat(np.arange(len(sizes)), sizes)  # which word of the targets each pair is about
    keys, which = np.unique(read * target_words + said, return_inverse=True)
    of = keys // target_words
    probable = np.ones(len(keys))
    for _ in range(ROUNDS):
        taken = probable[which]
        taken /= np.bincount(place, taken)[place]
        counts = np.bincount(which, taken)
        probable = counts / np.bincount(of, counts, minlength=source_words)[of]
    order = np.lexsort((-probable, of))
    first = np.searchsorted(of[order], np.arange(source_words))
    rank = np.arange(len(order)) - first[of[order]]
    kept = order[(rank < EACH) & (probable[order] >= LEAST)]
    ends = np.cumsum(np.bincount(of[kept], minlength=source_words))
    always = np.union1d(np.argsort(-common, kind="stable")[:ALWAYS], list(needed)).astype(np.int32)
    return Shortlist(always, ends.astype(np.int64), (keys[kept] % target_words).astype(np.int32))
