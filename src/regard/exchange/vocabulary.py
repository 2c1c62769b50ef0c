"""Our tokenizers as other tools read them: one tokenizer.json of the `tokenizers` library, with our ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import normalizers, processors

from regard.data.tokenizer import MASK, NAMES, ForeignTokenizer, Tokenizer
from regard.errors import UserError
from regard.files import write

ROLES = {"pad_token": "<pad>", "bos_token": "<start>", "eos_token": "</s>", "unk_token": "<unk>"}
BERT_ROLES = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")}


def write_tokenizer(
    folder: Path, tokenizer: Tokenizer, *, whole: bool, start: int, max_length: int, reads: bool = False
) -> None:
    """`whole`: texts are sentences with marks around them, and not parts of a running one; `reads`: for a reader."""
    if tokenizer.new_words:
        raise UserError(
            f"the tokenizer has {len(tokenizer.new_words)} new words, which other tools would tell otherwise"
        )
    library = library_of(tokenizer, whole=whole, start=start, reads=reads)
    known = {token.content for token in library.get_added_tokens_decoder().values()}
    roles = {role: name for role, name in {**BERT_ROLES, **ROLES}.items() if name in known}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **roles}
    settings |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]} if reads else {}
    write(folder / "tokenizer.json", library.to_str().encode())
    write(folder / "tokenizer_config.json", json.dumps({**settings, "clean_up_tokenization_spaces": False}).encode())


def library_of(tokenizer: Tokenizer, *, whole: bool, start: int, reads: bool = False) -> Library:
    """The library's own, in which control tokens are words too."""
    content = tokenizer.content()
    if isinstance(tokenizer, ForeignTokenizer):
        controls = {int(i): str(name) for i, name in content["controls"].items()}
        library = Library.from_str(json.dumps(content["tokenizer"]))
        before, after = tokenizer.frame
    else:
        blanks = MASK in tokenizer.tags and not reads
        controls = dict(enumerate(tokenizer.pieces(range(len(NAMES) + len(tokenizer.tags)))))
        library = Library.from_str(json.dumps({**content["tokenizer"], "model": _shifted(content, controls)}))
        if whole and not blanks and tokenizer.kind in ("bpe", "unigram"):  # a space in front of the first word
            rest = [library.normalizer] if library.normalizer is not None else []
            library.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *rest])
        before, after = [start] if blanks or reads or not whole else [], [tokenizer.end] if whole else []
    added = [{**PLAIN, "id": i, "content": n, "lstrip": n == MASK} for i, n in sorted(controls.items())]
    library = Library.from_str(json.dumps({**json.loads(library.to_str()), "added_tokens": added}))
    if before or after:
        first, last = [controls[i] for i in before], [controls[i] for i in after]
        marks = [(controls[i], i) for i in {*before, *after}]
        single, second = [*first, "$A", *last], ["$B:1", *(f"{name}:1" for name in last)]
        library.post_processor = processors.TemplateProcessing(
            single=" ".join(single), pair=" ".join([*single, *second]), special_tokens=marks
        )
    return library


PLAIN = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def _shifted(content: Mapping[str, Any], controls: Mapping[int, str]) -> dict[str, Any]:
    """The library's model with our ids: control tokens first, and its own symbol for the unknown left out."""
    model, kind, names = content["tokenizer"]["model"], content["kind"], [controls[i] for i in sorted(controls)]
    if kind == "unigram":
        lowest = min(score for _, score in model["vocab"]) - 100.0
        return {**model, "vocab": [*([name, lowest] for name in names), *model["vocab"]], "unk_id": None}
    symbols = sorted(model["vocab"], key=model["vocab"].__getitem__)
    symbols = symbols if kind == "bpe" else symbols[1:]
    if clash := set(names) & set(symbols):
        raise UserError(
            f"the vocabulary has {sorted(clash)[0]} as a word of its own, which other tools cannot tell apart"
        )
    vocab = {symbol: i for i, symbol in enumerate([*names, *symbols])}
    return {**model, "vocab": vocab} if kind == "bpe" else {**model, "vocab": vocab, "unk_token": "<unk>"}
