"""Corpora by name that need no files of the user's: made on the spot, or carried by a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from regard.data.daily.grammar import sentences
from regard.data.pronounce import cmudict
from regard.errors import UserError
from regard.rng import Key

SIZES = {"train": 20_000, "valid": 500, "test": 500}  # pairs


def copy(split: str) -> Iterator[tuple[str, str]]:
    """4 to 20 digits, to be said again; a sequence belongs to one split alone."""
    if split not in SIZES:
        raise UserError(f"copy has no split {split!r}; use {', '.join(SIZES)}")
    draw = Key(0, ("copy", split)).generator()
    made = 0
    while made < SIZES[split]:
        text = " ".join(map(str, draw.integers(0, 10, int(draw.integers(4, 21))).tolist()))
        share = Key(0, ("share", text)).word() % 10
        if split == {0: "valid", 1: "test"}.get(share, "train"):
            made += 1
            yield text, text


@cache  # read twice, for words and for batches
def daily(split: str) -> list[tuple[str, str]]:
    """Synthetic English and German; the grammar also knows which words belong together."""
    return [(" ".join(made.source), " ".join(made.target)) for made in sentences(split)]


MADE: dict[str, Callable[[str], Iterable[tuple[str, str]]]] = {"copy": copy, "daily": daily, "cmudict": cmudict}
