"""sentencepiece's models, read by hand: libraries that cut texts into the same pieces."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, models, normalizers
from tokenizers import Tokenizer as Library

from regard.data.parts import LONGEST, check_charsmap, no_panic
from regard.data.tokenizer import CODE, ForeignTokenizer, Tokenizers
from regard.errors import UserError
from regard.exchange.words import SPACE, merges_of
from regard.files import read_regular

LARGEST, MOST_FIELDS = 8 << 20, 1 << 19  # bytes of a file, fields of a message
SIZES = {1: 8, 5: 4}  # bytes of values that do not tell theirs
NORMAL, UNKNOWN, CONTROL, _, UNUSED, BYTE = range(1, 7)  # what a piece can be; 4: a word that its maker chose
KINDS = {1: ("unigram", {NORMAL, UNKNOWN, CONTROL, UNUSED}), 2: ("bpe", {NORMAL, UNKNOWN, CONTROL, BYTE})}
MARKS = ("</s>", "<unk>", "<pad>")
Piece = tuple[str, float, int]  # with its score, and what it is


@dataclass(frozen=True)
class Spm:
    """A model, and a library that cuts as it does."""

    kind: str
    pieces: list[Piece]
    library: Mapping[str, Any]
    """Its ids are those of a BPE model, and nobody's of a unigram model."""


def read_spm(path: Path) -> Spm:
    """Raises UserError for what is no such model, or one of a kind that is unknown here."""
    with no_panic(f"{path}: is no model of sentencepiece that Regard reads"):
        parts: dict[int, list[Any]] = {1: [], 2: [b""], 3: [b""]}
        for number, value in _fields(read_regular(path, LARGEST)):
            parts.setdefault(number, []).append(value)
        pieces = [_piece(part) for part in parts[1]]
        trainer, settings = (dict(_fields(parts[i][-1])) for i in (2, 3))
        kind, known = KINDS.get(trainer.get(3, 1), ("unknown", set()))
        odd = sorted({each for _, _, each in pieces} - known)
        if odd or sum(each == UNKNOWN for _, _, each in pieces) != 1 or trainer.get(24) or settings.get(5) == 0:
            raise ValueError(f"of kind {kind}, spaces after words or as they are, or pieces of types {odd}")
        library = Library(_unigram(pieces) if kind == "unigram" else _bpe(pieces))
        library.normalizer = _normaliser(settings)
        return Spm(kind, pieces, json.loads(library.to_str()))


def marian_tokenizers(folder: Path, vocabulary: int) -> Tokenizers:
    """One vocabulary over the pieces of two models."""
    path = folder / "vocab.json"
    with no_panic(f"{path}: is no list of words with their numbers"):
        words = {str(word): int(i) for word, i in json.loads(read_regular(path)).items()}
        end, unknown = words["</s>"], words["<unk>"]
        if not all(0 <= i < vocabulary for i in words.values()):
            raise ValueError(f"numbers beyond the {vocabulary} words of the model")
        controls = {i: word for word, i in words.items() if word in MARKS or CODE.fullmatch(word)}
        spelled = {word: i for word, i in words.items() if i not in controls or i == unknown}
        both = [read_spm(folder / f"{side}.spm").library for side in ("source", "target")]
        return Tokenizers(*(ForeignTokenizer(each, controls, vocabulary, ([], [end]), spelled) for each in both))


def llama_tokenizer(path: Path, vocabulary: int) -> ForeignTokenizer:
    """That of a Llama which came with its sentencepiece model alone."""
    model = read_spm(path)
    controls = {i: piece for i, (piece, _, kind) in enumerate(model.pieces) if kind in (UNKNOWN, CONTROL)}
    before = [i for i, name in controls.items() if name == "<s>"]
    if model.kind != "bpe":
        raise UserError(f"{path}: is of kind {model.kind}, and those of Llama are bpe")
    with no_panic(f"{path}: does not fit the model"):
        return ForeignTokenizer(model.library, controls, vocabulary, (before, []))


def _unigram(pieces: list[Piece]) -> models.Model:
    normal = [(piece, score) for piece, score, kind in pieces if kind == NORMAL]
    # A space is in no text that was normalised: nobody can spell the unknown.
    return models.Unigram([(" ", min(score for _, score in normal)), *normal], 0, False)


def _bpe(pieces: list[Piece]) -> models.Model:
    pairs = merges_of([(piece, score) for piece, score, kind in pieces if kind == NORMAL])
    unknown = next(piece for piece, _, kind in pieces if kind == UNKNOWN)
    numbers, by_bytes = {piece: i for i, (piece, _, _) in enumerate(pieces)}, any(p[2] == BYTE for p in pieces)
    return models.BPE(numbers, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=by_bytes)


def _normaliser(settings: Mapping[int, Any]) -> normalizers.Sequence:
    """Characters by their map; then one space between words and, where a model wants it, one before the first."""
    steps: list[normalizers.Normalizer] = []
    charsmap, prefix, tidy = settings.get(2), settings.get(3, 1), settings.get(4, 1)
    if charsmap:
        check_charsmap(charsmap)
        steps.append(normalizers.Precompiled(charsmap))
        if steps[0].normalize_str("e\u0301") == "é":  # it composes, but the library drops all marks but one
            steps.insert(0, normalizers.NFC())
    if tidy:
        steps += [normalizers.Replace(Regex("^ +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    if prefix:
        steps.append(normalizers.Prepend(SPACE))
    steps.append(normalizers.Replace(" ", SPACE))
    if tidy:
        steps.append(normalizers.Replace(Regex(f"{SPACE}+$"), ""))
    return normalizers.Sequence(steps)


def _piece(data: bytes) -> tuple[str, float, int]:
    fields = dict(_fields(data))
    (score,) = struct.unpack("<f", fields.get(2, bytes(4)))
    if not 0 < len(fields[1]) <= LONGEST or not math.isfinite(score):
        raise ValueError(f"a piece of {len(fields[1])} bytes with a score of {score}")
    return fields[1].decode(), score, int(fields.get(3, NORMAL))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message [Protocol Buffers' wire format]: a whole number, or bytes."""
    at = 0
    for _ in range(MOST_FIELDS):
        if at == len(data):
            return
        key, at = _number(data, at)
        wire = key & 7
        if wire not in (0, 2, *SIZES):
            raise ValueError(f"a field of type {wire}")
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
    """Seven bits of each byte, until one is below 128; and where the next field begins."""
    value = 0
    for count, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, at + count + 1
    raise ValueError("a number without an end")
