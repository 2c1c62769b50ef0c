"""From text files to a tokenizer and a store of ids, once per run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data.config import DataConfig, PairsConfig
from regard.data.store import Store, build
from regard.data.text import Pair, pairs
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.tasks.folder import load_tokenizers, save_tokenizers
from regard.tasks.translation import Held, Tokenizers

CHUNK = 4096  # pairs encoded at once


@dataclass
class Left:
    """Pairs left out of training, by reason."""

    empty: int = 0
    long: int = 0
    kept: int = 0

    def __str__(self) -> str:
        return f"{self.kept:,} pairs; left out: {self.empty:,} with an empty side, {self.long:,} too long"


def tokenizers_for(config: DataConfig, folder: Path) -> Tokenizers:
    """Those of the folder, or trained now and saved before anything else happens."""
    if any(folder.glob("tokenizer*.json")):
        return load_tokenizers(folder)
    tags = sorted({pair.tag for pair in config.train if pair.tag})

    def side(which: str) -> Iterator[str]:
        return (getattr(pair, which) for corpus in config.train for pair in pairs(corpus))

    if config.tokenizer.joint:
        joint = Tokenizer.train(_both(config.train), config.tokenizer, tags)
        trained = Tokenizers(joint, joint)
    else:
        trained = Tokenizers(
            Tokenizer.train(side("source"), config.tokenizer, tags), Tokenizer.train(side("target"), config.tokenizer)
        )
    save_tokenizers(folder, trained)
    return trained


def store_for(config: DataConfig, tokenizers: Tokenizers, folder: Path) -> tuple[Store, Left]:
    """The training pairs as ids, memory-mapped; made once."""
    left = Left()
    place = folder / "store"
    if not place.exists():
        vocabulary = max(tokenizers.source.vocabulary, tokenizers.target.vocabulary)
        build(place, _rows(config, tokenizers, left), vocabulary=vocabulary)
    store = Store.open(place)
    left.kept = len(store)
    if not len(store):
        raise UserError(f"no pair is left to train on ({left}); raise data.max_length, or look at the files")
    return store, left


def held_out(config: DataConfig, tokenizers: Tokenizers) -> Held | None:
    """The validation pairs, whole: nothing is left out of what is measured."""
    texts = [pair for corpus in config.valid for pair in pairs(corpus)]
    if not texts:
        return None
    sources = [
        ids
        for corpus in config.valid
        for chunk in _chunks(pairs(corpus))
        for ids in tokenizers.read([pair.source for pair in chunk], corpus.tag)
    ]
    targets = tokenizers.target.encode([pair.target for pair in texts])
    return Held(sources, targets, [pair.target for pair in texts])


def _rows(config: DataConfig, tokenizers: Tokenizers, left: Left) -> Iterator[tuple[list[int], list[int]]]:
    for corpus in config.train:
        for chunk in _chunks(pairs(corpus)):
            full = [pair for pair in chunk if pair.source.strip() and pair.target.strip()]
            left.empty += len(chunk) - len(full)
            sources = tokenizers.read([pair.source for pair in full], corpus.tag)
            targets = tokenizers.target.encode([pair.target for pair in full])
            for source, target in zip(sources, targets, strict=True):
                if max(len(source), len(target) + 1) > config.max_length:
                    left.long += 1
                else:
                    yield source, target


def _both(corpora: Iterable[PairsConfig]) -> Iterator[str]:
    for corpus in corpora:
        for pair in pairs(corpus):
            yield pair.source
            yield pair.target


def _chunks(stream: Iterator[Pair]) -> Iterator[list[Pair]]:
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
