"""Compose the corpus that Regard ships: python -m tools.daily [FOLDER]; half a minute.

Each split is a .tsv.gz of a sentence a line: English, German, and the links of their words in Pharaoh's notation.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tools.daily.grammar import SIZES, sentences

SHIPPED = Path(__file__).parents[2] / "src" / "regard" / "data" / "daily"


def rows(split: str, count: int | None = None) -> Iterator[str]:
    """The lines of a split's file, or the first `count` of them."""
    for each in islice(sentences(split), count):
        links = " ".join(f"{i}-{j}" for i, j in sorted(each.links))
        yield f"{' '.join(each.source)}\t{' '.join(each.target)}\t{links}\n"


def main(folder: Path) -> None:
    for split in SIZES:
        text = "".join(rows(split)).encode()
        (folder / f"{split}.tsv.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)
