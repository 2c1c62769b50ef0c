"""Running text from files: in pieces of a line, with the ends of documents."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from regard.data.config import RunningText
from regard.data.examples import CORPORA, unlabelled
from regard.data.text import kept, lines
from regard.errors import UserError

TEXTS = {f"wikitext2/{split}": f"wikitext2/{split}.txt" for split in ("train", "valid", "test")}
TEXTS |= {"tinyshakespeare/all": "tinyshakespeare/input.txt", "multi30k/en/train": "multi30k/raw/train.en", **CORPORA}
Piece = tuple[str, bool]  # of text, and whether a document ends with it


def pieces(texts: Sequence[RunningText], documents: Literal["file", "paragraph", "line"]) -> Iterator[Piece]:
    """Every line with its line end, which a document of one line goes without, as each text of a labelled corpus."""
    for text in texts:
        if text.corpus in CORPORA:
            yield from ((line, True) for line in unlabelled(text.corpus))
            continue
        path = place_of(text)
        held: str | None = None
        for line in lines(path, strict=True):
            if documents == "line":
                if line.strip():
                    yield line, True
                continue
            if held is not None:
                yield held, documents == "paragraph" and not line.strip()
            held = f"{line}\n" if documents == "file" or line.strip() else None
        if held is not None:
            yield held, True


def parted(stream: Iterator[Piece], at: int) -> tuple[list[Piece], Iterator[Piece]]:
    """The pieces of the first `at` characters, and the rest; a piece across the border is cut in two."""
    first: list[Piece] = []
    for text, ends in stream:
        if len(text) <= at:
            first.append((text, ends))
            at -= len(text)
            continue
        if at:
            first.append((text[:at], False))
        return first, chain([(text[at:], ends)], stream)
    return first, stream


def place_of(text: RunningText) -> Path:
    """The file of a text."""
    if text.corpus is None:
        return Path(text.file or "")
    if text.corpus not in TEXTS:
        raise UserError(f"no text is called {text.corpus!r}; known: {', '.join(TEXTS)}")
    return kept(TEXTS[text.corpus])
