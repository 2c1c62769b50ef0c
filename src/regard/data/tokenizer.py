"""Text to ids and back, around the `tokenizers` library.

Control ids are ours and unknown to the library: padding, start, end, unknown, then the tags, then the library's own
ids shifted up. So text that spells a control token stays text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, get_args

from tokenizers import Tokenizer as Library

from regard import files
from regard.data.config import NUM_BYTES, NUM_CONTROLS, TokenizerConfig, TokenizerKind
from regard.data.library import MISSING, MODELS, learn, prepared, set_parts
from regard.data.spelling import BYTES, label, word_numbers
from regard.errors import UserError

PADDING, START, END, UNKNOWN = range(NUM_CONTROLS)
NAMES = ("<pad>", "<start>", "</s>", "<unk>")
SHOWN_UNKNOWN = "⁇"
LARGEST = 64 << 20  # bytes of a file that is read


class Tokenizer:
    """A trained tokenizer; `vocabulary` counts all ids."""

    def __init__(self, library: Library, kind: TokenizerKind, tags: Sequence[str] = ()) -> None:
        if len(set(tags)) != len(tags):
            raise UserError(f"tags {', '.join(tags)} name a direction twice; list each once")
        set_parts(library, kind)
        self.kind, self.tags, self._library = kind, tuple(tags), library
        self._controls = [*NAMES, *(f"<2{tag}>" for tag in tags)]
        self._num_missing = int(kind in MISSING)  # 1: the library's id 0 is its unknown, which becomes our UNKNOWN
        self._shift = len(self._controls) - self._num_missing
        vocab = library.get_vocab()
        symbols = sorted(vocab, key=vocab.__getitem__)[self._num_missing :]
        spelled = [s.encode() if self._num_missing else bytes(BYTES[c] for c in s) for s in symbols]
        self._bytes = [b""] * len(self._controls) + spelled
        self._bytes[UNKNOWN] = SHOWN_UNKNOWN.encode()
        self.vocabulary = len(self._bytes)

    @staticmethod
    def train(texts: Iterator[str], config: TokenizerConfig, tags: Sequence[str] = ()) -> Tokenizer:
        """Learn from texts; the vocabulary may come out smaller than asked for when they are few."""
        first = next(texts, None)
        if first is None:
            raise UserError("no text to train a tokenizer on; give at least one line")
        room = config.vocabulary - NUM_CONTROLS - len(tags)
        least = 1 if config.kind in MISSING else NUM_BYTES
        if room < least:
            wanted = config.vocabulary - room + least
            raise UserError(f"a vocabulary of {config.vocabulary} is too small with {len(tags)} tags; use {wanted}")
        return Tokenizer(learn(chain([first], texts), config, room), config.kind, tags)

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """Read what `save` wrote."""
        try:
            size = path.stat().st_size
            if size > LARGEST:
                raise UserError(f"{path}: {size} bytes are no tokenizer; at most {LARGEST} are read, so check the name")
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error}); check the name") from error
        try:
            return _parsed(json.loads(data))
        except Exception as error:  # the library raises plain Exception
            raise UserError(f"{path}: no tokenizer of Regard ({error}); copy it again from where it came") from error

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        content = {
            "format": "regard-tokenizer",
            "version": 1,
            "kind": self.kind,
            "tags": list(self.tags),
            "tokenizer": json.loads(self._library.to_str()),
        }
        files.write(path, json.dumps(content, ensure_ascii=False).encode())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without start and end."""
        ready = [prepared(text, self.kind) for text in texts]
        found = self._library.encode_batch_fast(ready, add_special_tokens=False)
        return [[UNKNOWN if i < self._num_missing else i + self._shift for i in one.ids] for one in found]

    def decode(self, ids: Sequence[int]) -> str:
        """The text again; control ids are dropped, and the unknown is shown as ⁇."""
        self._check(ids)
        if self.kind == "words":
            return " ".join(self._bytes[i].decode() for i in ids if self._bytes[i])
        text = b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace")
        return text if self.kind == "characters" else text.removeprefix(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A label to print for each id."""
        self._check(ids)
        return [self._controls[i] if i < len(self._controls) else label(self._bytes[i]) for i in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """A group for each id: pieces of one word share a number, a control token has its own."""
        self._check(ids)
        groups: list[int] = []
        for alone, run in groupby(ids, self._stands_alone):
            spelled = [self._bytes[i] for i in run]
            first = groups[-1] + 1 if groups else 0
            groups += [first + n for n in (range(len(spelled)) if alone else word_numbers(spelled))]
        return groups

    def tag_id(self, tag: str) -> int:
        """The id that stands for a direction."""
        if tag not in self.tags:
            raise UserError(f"no direction is called {tag!r}; known: {', '.join(self.tags) or 'none, so give no tag'}")
        return NUM_CONTROLS + self.tags.index(tag)

    def _stands_alone(self, i: int) -> bool:
        return self.kind == "words" or (i < len(self._controls) and i != UNKNOWN)

    def _check(self, ids: Sequence[int]) -> None:
        if len(ids) and (min(ids) < 0 or max(ids) >= self.vocabulary):
            raise UserError(
                f"ids {min(ids)} to {max(ids)} are not all below {self.vocabulary}; use this tokenizer's own"
            )


def _parsed(content: dict[str, Any]) -> Tokenizer:
    """A tokenizer that can do all its kind promises; anything raised means that the file is no good."""
    if content["format"] != "regard-tokenizer" or content["version"] != 1:
        raise ValueError(f"format {content['format']!r}, version {content['version']!r}")
    kind, tags = content["kind"], content["tags"]
    if kind not in get_args(TokenizerKind) or not isinstance(tags, list) or not all(isinstance(t, str) for t in tags):
        raise ValueError(f"kind {kind!r} and tags {tags!r}")
    library = Library.from_str(json.dumps(content["tokenizer"]))
    if not isinstance(library.model, MODELS[kind]) or library.get_added_tokens_decoder():
        raise ValueError(f"the model is not of kind {kind}, or has added tokens")
    vocab = library.get_vocab()
    needed = {MISSING[kind]} if kind in MISSING else set(BYTES)
    if sorted(vocab.values()) != list(range(len(vocab))) or "" in vocab or not needed <= set(vocab):
        raise ValueError("symbols or ids are missing")
    if kind in MISSING and vocab[MISSING[kind]] != 0:
        raise ValueError("the unknown is not the first symbol")
    tokenizer = Tokenizer(library, kind, tags)
    tokenizer.encode(["a trial \U0010fffd"])
    return tokenizer
