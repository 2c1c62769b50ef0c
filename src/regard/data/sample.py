"""One reading of a corpus: how many pairs it has, and an even sample of them for recipes and tokenizers."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import TypeVar

from regard.data.config import PairsConfig
from regard.data.text import Pair, check_regular, files_of, pairs
from regard.files import state
from regard.progress import Progress

T = TypeVar("T")
CHUNK = 4096  # texts that are worked on at once
MANY = 100_000  # pairs, after which a bar is shown
SAMPLE = 2_000_000  # pairs that are kept at most, evenly over the corpus
Some = list[tuple[str, ...]]  # sources and targets
_latest: dict[object, tuple[int, Some]] = {}  # of corpora, in the state that their files were in when read last


def sample(corpora: Sequence[PairsConfig]) -> tuple[int, Some]:
    """How many pairs there are, and some of them; they are read once in a process, until `forget`."""
    if (key := _key(corpora)) not in _latest or not _latest[key][1]:
        some, total, every = Some(), 0, 1
        for total, pair in enumerate(all_pairs(corpora, "read"), 1):
            if (total - 1) % every == 0:
                some.append(pair[:2])
            if len(some) > SAMPLE:
                some, every = some[::2], 2 * every
        _latest.clear()
        _latest[key] = total, some
    return _latest[key]


def forget() -> None:
    """Let the pairs go that `sample` keeps."""
    for _, some in _latest.values():
        some.clear()


def all_pairs(corpora: Sequence[PairsConfig], what: str) -> Iterator[Pair]:
    """Of one corpus after the other, with a bar once it takes a while."""
    total, _ = _latest.get(_key(corpora), (None, None))
    with ExitStack() as stack:
        for number, pair in enumerate(chain.from_iterable(map(pairs, corpora))):
            if number == MANY:
                progress = stack.enter_context(Progress(total, what))
            if number >= MANY and number % CHUNK == 0:
                progress.update(number)
            yield pair


def chunks(stream: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(stream)
    return iter(lambda: list(islice(rest, CHUNK)), [])


def _key(corpora: Sequence[PairsConfig]) -> object:
    return *corpora, *(state(check_regular(path).stat()) for corpus in corpora for path in files_of(corpus))
