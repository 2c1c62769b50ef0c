"""Tokenizers of other tools, read into one that keeps their ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.parts import load_library, no_panic
from regard.data.tokenizer import ENDS, ForeignTokenizer
from regard.files import read_regular

SPACE = "▁"
BERT_CONTROLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    content: Mapping[str, Any] = json.loads(library.to_str())
    return content


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
