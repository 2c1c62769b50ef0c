"""Tokenizers of other tools, sentencepiece's among them, read into one that keeps their ids."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from regard.data.library import set_parts
from regard.data.parts import LONGEST, check_charsmap, load_library, no_panic
from regard.data.tokenizer import CODE, ENDS, ForeignTokenizer, Tokenizers
from regard.errors import UserError
from regard.exchange.installed import installed
from regard.files import read_regular

SPACE = "▁"
BERT_CONTROLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Of sentencepiece's models.
LARGEST, MOST_PIECES = 8 << 20, 1 << 19  # bytes of a file, and pieces in it
NORMAL, UNKNOWN, CONTROL, _, UNUSED, BYTE = range(1, 7)  # what a piece can be; 4: a word that its maker chose
KINDS = {1: ("unigram", {NORMAL, UNKNOWN, CONTROL, UNUSED}), 2: ("bpe", {NORMAL, UNKNOWN, CONTROL, BYTE})}
MARKS = ("</s>", "<unk>", "<pad>")
Piece = tuple[str, float, int]  # with its score, and what it is


def read_tokenizer(
    folder: Path, vocabulary: int | None = None, controls: Mapping[int, str] | None = None
) -> ForeignTokenizer | None:
    """That of a Hugging Face folder, if it has one; the model, if there is one, tells how many words there are, and as
    `controls` the ids that no text may spell."""
    with no_panic(f"{folder}: its tokenizer cannot be read"):
        if (folder / "tokenizer.json").is_file():
            content = json.loads(read_regular(folder / "tokenizer.json"))
            named = {int(token["id"]): str(token["content"]) for token in content["added_tokens"] if token["special"]}
            size = vocabulary or load_library(content).get_vocab_size()
            return ForeignTokenizer(content, {**(controls or {}), **named}, size, _frame(content))
        for words, merges in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
            if (folder / words).is_file() and (folder / merges).is_file():
                content = _gpt2(folder / words, folder / merges)
                known = content["model"]["vocab"]
                marks = controls or {known[name]: name for name in ENDS if name in known}
                return ForeignTokenizer(content, marks, vocabulary or len(known))
        if (folder / "vocab.txt").is_file():
            return _wordpiece(folder, vocabulary)
    return None


def merges_of(scored: Sequence[tuple[str, float]]) -> list[tuple[str, str]]:
    """The pairs that make a piece, the best score first."""
    pieces = {piece for piece, _ in scored}
    return [
        (piece[:cut], piece[cut:])
        for piece, _ in sorted(scored, key=lambda each: -each[1])
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]


def _gpt2(words: Path, merges: Path) -> Mapping[str, Any]:
    lines = [line for line in read_regular(merges).decode().split("\n") if line and not line.startswith("#version")]
    pairs = [(a, b) for a, b in (line.split(" ") for line in lines)]
    library = Library(models.BPE(json.loads(read_regular(words)), pairs))
    set_parts(library, "bpe")
    return dict(json.loads(library.to_str()))


def _frame(content: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The ids that this tokenizer puts before and after a text."""
    library = load_library({**content, "truncation": None, "padding": None})
    plain, whole = (library.encode("a", add_special_tokens=added).ids for added in (False, True))
    at = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
    return whole[:at], whole[at + len(plain) :]


def _wordpiece(folder: Path, vocabulary: int | None) -> ForeignTokenizer:
    words = read_regular(folder / "vocab.txt").decode().removesuffix("\n").split("\n")
    settings = folder / "tokenizer_config.json"
    lowercase = json.loads(read_regular(settings)).get("do_lower_case", True) if settings.is_file() else True
    library = Library(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=bool(lowercase))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    controls = {i: word for i, word in enumerate(words) if word in BERT_CONTROLS}
    ends = [[i for i, word in controls.items() if word == name] for name in ("[CLS]", "[SEP]")]
    return ForeignTokenizer(json.loads(library.to_str()), controls, vocabulary or len(words), (ends[0], ends[1]))


def read_spm(path: Path) -> tuple[list[Piece], Mapping[str, Any]]:
    """A model's pieces, and a library that cuts as it does: with their ids if it is of kind bpe, else with nobody's.

    Raises UserError for what is no such model, or one of a kind that is unknown here.
    """
    proto = installed("sentencepiece.sentencepiece_model_pb2").ModelProto()
    with no_panic(f"{path}: is no model of sentencepiece that Regard reads"):
        proto.ParseFromString(read_regular(path, LARGEST))
        if len(proto.pieces) > MOST_PIECES:
            raise ValueError(f"{len(proto.pieces):,} pieces, more than {MOST_PIECES:,}")
        pieces = [(each.piece, each.score, each.type) for each in proto.pieces]
        for piece, score, _ in pieces:
            if not 0 < len(piece.encode()) <= LONGEST or not math.isfinite(score):
                raise ValueError(f"a piece of {len(piece)} characters with a score of {score}")
        trainer, settings = proto.trainer_spec, proto.normalizer_spec
        kind, known = KINDS.get(trainer.model_type, ("unknown", set()))
        odd = sorted({each for _, _, each in pieces} - known)
        spaced = settings.escape_whitespaces and not trainer.treat_whitespace_as_suffix
        if odd or sum(each == UNKNOWN for _, _, each in pieces) != 1 or not spaced:
            raise ValueError(f"of kind {kind}, spaces after words or as they are, or pieces of types {odd}")
        library = Library(_cutter(kind, pieces))
        library.normalizer = _normaliser(settings)
        return pieces, json.loads(library.to_str())


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
        both = [read_spm(folder / f"{side}.spm")[1] for side in ("source", "target")]
        return Tokenizers(*(ForeignTokenizer(each, controls, vocabulary, ([], [end]), spelled) for each in both))


def llama_tokenizer(path: Path, vocabulary: int) -> ForeignTokenizer:
    """That of a Llama which came with its sentencepiece model alone."""
    pieces, library = read_spm(path)
    controls = {i: piece for i, (piece, _, what) in enumerate(pieces) if what in (UNKNOWN, CONTROL)}
    before = [i for i, name in controls.items() if name == "<s>"]
    if (kind := library["model"]["type"].lower()) != "bpe":
        raise UserError(f"{path}: is of kind {kind}, and those of Llama are bpe")
    with no_panic(f"{path}: does not fit the model"):
        return ForeignTokenizer(library, controls, vocabulary, (before, []))


def _cutter(kind: str, pieces: list[Piece]) -> models.Model:
    normal = [(piece, score) for piece, score, what in pieces if what == NORMAL]
    if kind == "unigram":
        # A space is in no text that was normalised: nobody can spell the unknown.
        return models.Unigram([(" ", min(score for _, score in normal)), *normal], 0, False)
    numbers, by_bytes = {piece: i for i, (piece, _, _) in enumerate(pieces)}, any(p[2] == BYTE for p in pieces)
    unknown = next(piece for piece, _, what in pieces if what == UNKNOWN)
    return models.BPE(numbers, merges_of(normal), unk_token=unknown, fuse_unk=True, byte_fallback=by_bytes)


def _normaliser(settings: Any) -> normalizers.Sequence:
    """Characters by their map; then one space between words and, where a model wants it, one before the first."""
    steps: list[normalizers.Normalizer] = []
    tidy = settings.remove_extra_whitespaces
    if charsmap := settings.precompiled_charsmap:
        check_charsmap(charsmap)
        steps.append(normalizers.Precompiled(charsmap))
        if steps[0].normalize_str("e\u0301") == "é":  # it composes, but the library drops all marks but one
            steps.insert(0, normalizers.NFC())
    if tidy:
        steps += [normalizers.Replace(Regex("^ +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    steps.append(normalizers.Replace(" ", SPACE))
    if tidy:
        steps.append(normalizers.Replace(Regex(f"{SPACE}+$"), ""))
    return normalizers.Sequence(steps)
