"""From text files to a tokenizer and one long row of ids, once per run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from regard.data.config import MaskedDataConfig, TextDataConfig
from regard.data.documents import Piece, parted, pieces
from regard.data.store import stored
from regard.data.tokenizer import MASK, Tokenizer
from regard.errors import UserError
from regard.tasks.language import Ids, Text

CHUNK = 4096  # pieces encoded at once


def tokenizer_for(config: TextDataConfig, folder: Path) -> Tokenizer:
    """That of the folder, or trained now and saved before anything else happens."""
    path = folder / "tokenizer.json"
    if path.exists():
        return Tokenizer.load(path)
    marks = [MASK] if isinstance(config, MaskedDataConfig) else []
    trained = Tokenizer.train((text for text, _ in _train(config)), config.tokenizer, marks)
    trained.save(path)
    return trained


def ids_for(config: TextDataConfig, tokenizer: Tokenizer, folder: Path) -> Ids:
    """The text to train on as ids, memory-mapped; made once."""
    rows = lambda: ((ids, list[int]()) for ids in _encoded(tokenizer, _train(config)))  # noqa: E731
    ids = stored(folder / "store", rows, vocabulary=tokenizer.vocabulary).stream
    if len(ids) <= config.context + 1:
        raise UserError(f"{len(ids):,} tokens to train on fill no context of {config.context}; give more text")
    return ids


def held_out(config: TextDataConfig, tokenizer: Tokenizer) -> Text | None:
    """The text to validate on, whole."""
    if config.hold_out:
        _, rest = parted(pieces(config.train, config.documents), _border(config))
        held = list(rest)
    else:
        held = list(pieces(config.valid, config.documents))
    return text_of(tokenizer, held) if held else None


def text_of(tokenizer: Tokenizer, held: list[Piece]) -> Text:
    """Ids after an end mark, and what perplexities are counted by: characters, and words with an end of line each."""
    ids = np.array([tokenizer.end, *(i for row in _encoded(tokenizer, held) for i in row)])
    words = sum(len(text.split()) + 1 for text, _ in held)
    return Text(ids, sum(len(text) for text, _ in held), words)


def _train(config: TextDataConfig) -> Iterable[Piece]:
    stream = pieces(config.train, config.documents)
    return parted(stream, _border(config))[0] if config.hold_out else stream


def _border(config: TextDataConfig) -> int:
    """Characters before the part that is held out."""
    return int(sum(len(text) for text, _ in pieces(config.train, config.documents)) * (1 - config.hold_out))


def _encoded(tokenizer: Tokenizer, stream: Iterable[Piece]) -> Iterator[list[int]]:
    stream = iter(stream)
    while chunk := list(islice(stream, CHUNK)):
        found = tokenizer.encode([text for text, _ in chunk], spaced=False)
        for ids, (_, ends) in zip(found, chunk, strict=True):
            yield [*ids, tokenizer.end] if ends else ids
