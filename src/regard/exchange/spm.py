"""sentencepiece's models, read by hand: libraries that cut texts into the same pieces."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, models, normalizers
from tokenizers import Tokenizer as Library

from regard.data.tokenizer import CODE, ForeignTokenizer
from regard.errors import UserError
from regard.exchange.words import SPACE, file_bytes, merges_of
from regard.tasks.translation import Tokenizers

LARGEST, MOST_FIELDS, LONGEST = 16 << 20, 1 << 19, 512  # bytes of a file, fields of a message, bytes of a piece
SIZES = {1: 8, 5: 4}  # bytes of values that do not tell theirs
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
NORMAL, UNKNOWN, CONTROL, CHOSEN, UNUSED, BYTE = range(
    1, 7
)  # what a piece can be; "chosen" by a user, whole in any text
READ = {"unigram": {NORMAL, UNKNOWN, CONTROL, UNUSED}, "bpe": {NORMAL, UNKNOWN, CONTROL, BYTE}}
MARKS = ("</s>", "<unk>", "<pad>")


@dataclass(frozen=True)
class Spm:
    """What a model says of itself."""

    kind: str
    pieces: list[tuple[str, float, int]]
    """With their scores, and what they are."""
    charsmap: bytes
    """Which characters become which, as the library reads it too."""
    prefix: bool
    """Whether a space is put before a text."""
    tidy: bool
    """Whether spaces are dropped but for one between words."""

    def library(self) -> Library:
        """Its ids are those of a BPE model, and nobody's of a unigram model."""
        normal = [(piece, score) for piece, score, kind in self.pieces if kind == NORMAL]
        if self.kind == "bpe":
            numbers = {piece: i for i, (piece, _, _) in enumerate(self.pieces)}
            (unknown,) = (piece for piece, _, kind in self.pieces if kind == UNKNOWN)
            in_bytes = any(kind == BYTE for _, _, kind in self.pieces)
            pairs = merges_of(normal)
            library = Library(models.BPE(numbers, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=in_bytes))
        else:  # a space is in no text that was normalised: nobody can spell the unknown
            library = Library(models.Unigram([(" ", min(score for _, score in normal)), *normal], 0, False))
        steps: list[Any] = []
        if self.charsmap:
            steps.append(normalizers.Precompiled(self.charsmap))
            if steps[0].normalize_str("e\u0301") == "é":  # it composes, but the library drops a second mark
                steps.insert(0, normalizers.NFC())
        if self.tidy:
            steps += [normalizers.Replace(Regex("^ +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
        steps += [normalizers.Prepend(SPACE)] if self.prefix else []
        steps += [normalizers.Replace(" ", SPACE)]
        steps += [normalizers.Replace(Regex(f"{SPACE}+$"), "")] if self.tidy else []
        library.normalizer = normalizers.Sequence(steps)
        return library


def read_spm(path: Path) -> Spm:
    """Raises UserError for what is no such model, or one of a kind that is unknown here."""
    try:
        data = file_bytes(path, LARGEST)
        parts: dict[int, list[Any]] = {1: [], 2: [b""], 3: [b""]}
        for number, value in _fields(data):
            parts.setdefault(number, []).append(value)
        pieces = [_piece(part) for part in parts[1]]
        trainer, normal = dict(_fields(parts[2][-1])), dict(_fields(parts[3][-1]))
        charsmap = bytes(normal.get(2, b""))
        if charsmap:
            _check_charsmap(charsmap)
    except (ValueError, TypeError, IndexError, AttributeError, struct.error) as error:
        raise UserError(f"{path}: is no model of sentencepiece ({error}); copy it again") from error
    kind = KINDS.get(trainer.get(3, 1), "unknown")
    odd = {each for _, _, each in pieces} - READ.get(kind, set())
    if odd or trainer.get(24) or normal.get(5) == 0 or not any(each == NORMAL for _, _, each in pieces):
        raise UserError(
            f"{path}: is of kind {kind}, with pieces of types {sorted(odd)} that are unknown here; Regard reads unigram "
            "and bpe, without words that a user chose, and with spaces before words"
        )
    return Spm(kind, pieces, charsmap, bool(normal.get(3, 1)), bool(normal.get(4, 1)))


def marian_tokenizers(folder: Path, vocabulary: int) -> Tokenizers:
    """One vocabulary over the pieces of two models."""
    path = folder / "vocab.json"
    try:
        words = {str(word): int(i) for word, i in json.loads(file_bytes(path)).items()}
        end, unknown = words["</s>"], words["<unk>"]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise UserError(f"{path}: is no list of words with their numbers ({error!r}); copy it again") from error
    controls = {i: word for word, i in words.items() if word in MARKS or CODE.fullmatch(word)}
    spelled = {word: i for word, i in words.items() if i not in controls or i == unknown}
    libraries = [json.loads(read_spm(folder / f"{side}.spm").library().to_str()) for side in ("source", "target")]
    return Tokenizers(*(ForeignTokenizer(each, controls, vocabulary, ([], [end]), spelled) for each in libraries))


def llama_tokenizer(path: Path, vocabulary: int) -> ForeignTokenizer:
    """That of a Llama which came with its sentencepiece model alone."""
    model = read_spm(path)
    controls = {i: piece for i, (piece, _, kind) in enumerate(model.pieces) if kind in (UNKNOWN, CONTROL)}
    before = [i for i, name in controls.items() if name == "<s>"]
    if model.kind != "bpe":
        raise UserError(f"{path}: is of kind {model.kind}, and those of Llama are bpe")
    return ForeignTokenizer(json.loads(model.library().to_str()), controls, vocabulary, (before, []))


def _piece(data: bytes) -> tuple[str, float, int]:
    fields = dict(_fields(data))
    (score,) = struct.unpack("<f", fields.get(2, bytes(4)))
    if not 0 < len(fields[1]) <= LONGEST or not math.isfinite(score):
        raise ValueError(f"a piece of {len(fields[1])} bytes with a score of {score}")
    return fields[1].decode(), score, fields.get(3, NORMAL)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message [Protocol Buffers' wire format]: a whole number, or bytes."""
    at = 0
    for _ in range(MOST_FIELDS):
        if at == len(data):
            return
        key, at = _number(data, at)
        wire = key & 7
        value, at = _number(data, at) if wire in (0, 2) else (SIZES[wire], at)
        if wire == 0:
            yield key >> 3, value
            continue
        if value > len(data) - at:
            raise ValueError(f"a field of {value} bytes, where {len(data) - at} are left")
        yield key >> 3, data[at : at + value]
        at += value
    raise ValueError(f"more than {MOST_FIELDS} fields")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits of each byte, until one is below 128; and where the next begins."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _check_charsmap(data: bytes) -> None:
    """Every step stays in the trie and every end in its texts; the library would trust them and crash."""
    size = int.from_bytes(data[:4], "little")
    units = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64)
    texts = np.frombuffer(data[4 + size :], np.uint8)
    children = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6))  # as Darts packs them
    inner = units >> 31 == 0
    inner[0] = True
    if size % 1024 or (children[inner] >= len(units)).any():  # 256 children each
        raise ValueError("its map of characters leads astray")
    ends = units[children[inner & (units & 256 > 0)]] & 0x7FFFFFFF
    if (
        (ends >= len(texts)).any()
        or (texts[ends] & 0xC0 == 0x80).any()
        or max(map(len, texts.tobytes().split(b"\0"))) > LONGEST
    ):
        raise ValueError("its map of characters ends astray")
