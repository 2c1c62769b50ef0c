"""One reading of a corpus: how many pairs it has, and an even sample of them for recipes and tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from regard.data.config import PairsConfig
from regard.data.text import Pair, check_regular, files_of, pairs
from regard.files import state
from regard.progress import Progress

T = TypeVar("T")
CHUNK = 4096  # texts that are worked on at once
MANY = 100_000  # pairs, after which a bar is shown
SAMPLE = 2_000_000  # pairs that are kept at most, evenly over the corpus
BETWEEN = "\ud800"  # texts: half of a surrogate pair, which none of them holds
_latest: dict[object, Sample] = {}  # of the corpora that were read last, in the state that their files were in


class Sample(NamedTuple):
    """A corpus of `total` pairs, by each `every`-th of them; packed, they take a third of the memory."""

    total: int
    every: int
    packed: Sequence[bytes]

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        for data in self.packed:
            texts = iter(data.decode("utf-8", "surrogatepass").split(BETWEEN))
            yield from zip(texts, texts, strict=True)


def sample(corpora: Sequence[PairsConfig]) -> Sample:
    """Of all of them together; they are read once in a process, until `forget`."""
    if (key := _key(corpora)) not in _latest or not _latest[key].packed:
        packed, total, every = list[bytes](), 0, 1
        for chunk in chunks(all_pairs(corpora, "read")):  # each begins at a multiple of `every`
            packed.append(_pack(chunk[::every]))
            total += len(chunk)
            if total > SAMPLE * every:
                half = islice(Sample(total, every, packed).pairs, 0, None, 2)
                packed, every = [_pack(some) for some in chunks(half)], 2 * every
        _latest.clear()
        _latest[key] = Sample(total, every, packed)
    return _latest[key]


def forget() -> None:
    """Let the pairs go that `sample` keeps."""
    _latest.update({key: latest._replace(packed=()) for key, latest in _latest.items()})


def all_pairs(corpora: Sequence[PairsConfig], what: str) -> Iterator[Pair]:
    """Of one corpus after the other; how many they are is known once they were read."""
    known = _latest.get(_key(corpora))
    return watched(chain.from_iterable(map(pairs, corpora)), what, known and known.total)


def watched(stream: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    """The same, with a bar once it takes a while."""
    with ExitStack() as stack:
        for number, each in enumerate(stream):
            if number == MANY:
                progress = stack.enter_context(Progress(total, what))
            if number >= MANY and number % CHUNK == 0:
                progress.update(number)
            yield each


def chunks(stream: Iterable[T]) -> Iterator[list[T]]:
    stream = iter(stream)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def _key(corpora: Sequence[PairsConfig]) -> object:
    return *corpora, *(state(check_regular(path).stat()) for corpus in corpora for path in files_of(corpus))


def _pack(some: Sequence[tuple[str, ...] | Pair]) -> bytes:
    return BETWEEN.join(text for one, other, *_ in some for text in (one, other)).encode("utf-8", "surrogatepass")
