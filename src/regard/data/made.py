"""Corpora by name that need no files of the user's: made on the spot, or shipped with Regard."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files

from regard.errors import UserError
from regard.rng import Key

SIZES = {"train": 20_000, "valid": 500, "test": 500}  # pairs


def check_split(name: str, split: str) -> None:
    if split not in SIZES:
        raise UserError(f"{name} has no split {split!r}; use {', '.join(SIZES)}")


def copy(split: str) -> Iterator[tuple[str, str]]:
    """4 to 20 digits, to be said again; a sequence belongs to one split alone."""
    check_split("copy", split)
    draw = Key(0, ("copy", split)).generator()
    made = 0
    while made < SIZES[split]:
        text = " ".join(map(str, draw.integers(0, 10, int(draw.integers(4, 21))).tolist()))
        share = Key(0, ("share", text)).word() % 10
        if split == {0: "valid", 1: "test"}.get(share, "train"):
            made += 1
            yield text, text


def daily_columns(split: str) -> list[list[str]]:
    """Synthetic English and German of daily life, and the gold links of their words; tools/daily/ composes them."""
    check_split("daily", split)
    text = gzip.decompress(files("regard.data").joinpath(f"daily/{split}.tsv.gz").read_bytes()).decode()
    return [list(column) for column in zip(*(line.split("\t") for line in text.splitlines()), strict=True)]


MADE: dict[str, Callable[[str], Iterable[tuple[str, str]]]] = {
    "copy": copy,
    "daily": lambda split: zip(*daily_columns(split)[:2], strict=True),
}
