"""Our tokenizers as other tools read them: one tokenizer.json of the `tokenizers` library, with our ids."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from regard.data.library import MISSING
from regard.data.tokenizer import MASK, NAMES, SHOWN_UNKNOWN, UNKNOWN, ForeignTokenizer, Tokenizer
from regard.errors import UserError
from regard.files import write
from regard.tasks.folder import Loaded

ROLES = {"pad_token": "<pad>", "bos_token": "<start>", "eos_token": "</s>", "unk_token": "<unk>"}
BERT_ROLES = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")}


def write_tokenizer(folder: Path, tokenizer: Tokenizer, loaded: Loaded) -> None:
    """That of the source or of the target of a model, which says how its texts are framed."""
    whole, reads = loaded.spec.form != "prompt", loaded.spec.form == "example"
    if count := len(tokenizer.new_words):
        raise UserError(f"the tokenizer has {count} new words, which other tools would tell otherwise")
    library = library_of(tokenizer, whole=whole, start=loaded.model.start, reads=reads)
    known = {token.content for token in library.get_added_tokens_decoder().values()}
    roles = {role: name for role, name in {**BERT_ROLES, **ROLES}.items() if name in known}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": loaded.max_length, **roles}
    # Without segments, `generate` takes all that the tokenizer gives; prompts of a batch end together.
    settings["model_input_names"] = ["input_ids", *["token_type_ids"] * reads, "attention_mask"]
    settings["padding_side"] = "right" if whole else "left"
    folder.mkdir(exist_ok=True)
    write(folder / "tokenizer.json", library.to_str().encode())
    write(folder / "tokenizer_config.json", json.dumps({**settings, "clean_up_tokenization_spaces": False}).encode())


def library_of(tokenizer: Tokenizer, *, whole: bool, start: int, reads: bool = False) -> Library:
    """The library's own, in which control tokens are words too; `whole`: texts are sentences with marks around them and
    not parts of a running one; `reads`: for a reader."""
    content = tokenizer.content()
    if isinstance(tokenizer, ForeignTokenizer):
        controls = {int(i): str(name) for i, name in content["controls"].items()}
        model = content["tokenizer"]["model"]
        if isinstance(model["vocab"], dict):  # a control token has one name, and not that of llama2.c too
            model["vocab"] = {controls.get(i, piece): i for piece, i in model["vocab"].items()}
        library = Library.from_str(json.dumps(content["tokenizer"]))
        before, after = tokenizer.frame
        if library.decoder is None and model["type"] in DECODERS:
            library.decoder = DECODERS[model["type"]]
    else:
        blanks = MASK in tokenizer.tags and not reads
        controls = dict(enumerate(tokenizer.pieces(range(len(NAMES) + len(tokenizer.tags)))))
        if tokenizer.kind in MISSING:  # a word like others, which is shown as Regard shows it
            controls[UNKNOWN] = SHOWN_UNKNOWN
        library = Library.from_str(json.dumps({**content["tokenizer"], "model": _shifted(content, controls)}))
        controls = {i: name for i, name in controls.items() if name != SHOWN_UNKNOWN}
        _set_spaces(library, tokenizer, whole, blanks)
        before, after = [start] if blanks or reads or not whole else [], [tokenizer.end] if whole else []
    added = [{**PLAIN, "id": i, "content": n, "lstrip": n == MASK} for i, n in sorted(controls.items())]
    library = Library.from_str(json.dumps({**json.loads(library.to_str()), "added_tokens": added}))
    if before or after:
        first, last = [controls[i] for i in before], [controls[i] for i in after]
        marks = [(controls[i], i) for i in {*before, *after}]
        single, second = [*first, "$A", *last], ["$B:1", *(f"{name}:1" for name in last)]
        library.post_processor = processors.TemplateProcessing(single, [*single, *second], marks)
    return library


PLAIN = {"special": True, "single_word": False, "rstrip": False, "normalized": False}
_spaces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
DECODERS: dict[str, decoders.Decoder] = dict.fromkeys(("BPE", "Unigram"), decoders.Sequence(_spaces))
DECODERS["WordPiece"] = decoders.WordPiece(cleanup=False)


def _set_spaces(library: Library, tokenizer: Tokenizer, whole: bool, blanks: bool) -> None:
    """The space before the first word, which whole texts get as they are read and lose as they are written."""
    if (kind := tokenizer.kind) == "words":  # no prefix joins two, and line ends have no spaces around
        lines = [decoders.Replace(" \n", "\n"), decoders.Replace("\n ", "\n")]
        library.decoder = decoders.Sequence([decoders.WordPiece(" ", cleanup=False), decoders.Fuse(), *lines])
    rest = [library.normalizer] if library.normalizer is not None else []
    tag = [normalizers.Replace(Regex("^ "), "")] if tokenizer.tags else []  # a space between it and the text
    library.normalizer = normalizers.Sequence([*tag, *rest])
    if blanks:  # the parts between blanks are trimmed, and only the first always has a space
        spaced = [normalizers.Replace(Regex(r"^\s+"), " "), normalizers.Strip(left=False)]
        library.normalizer = normalizers.Sequence([*([normalizers.Strip()] if kind in MISSING else spaced), *rest])
    if not whole or kind in MISSING:
        return
    if blanks:
        first = pre_tokenizers.Metaspace(" ", "first", split=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([first, library.pre_tokenizer])
    else:
        library.normalizer = normalizers.Sequence([*tag, normalizers.Prepend(" "), *rest])
    library.decoder = decoders.Sequence([library.decoder, decoders.Strip(" ", 1, 0)])


def _shifted(content: Mapping[str, Any], controls: Mapping[int, str]) -> dict[str, Any]:
    """The library's model with our ids: control tokens first, and its own symbol for the unknown left out."""
    model, kind, names = content["tokenizer"]["model"], content["kind"], [controls[i] for i in sorted(controls)]
    symbols = [piece for piece, _ in model["vocab"]] if kind == "unigram" else model["vocab"]
    if clash := {*names} & {*symbols}:
        raise UserError(f"the vocabulary has the word {min(clash)}, which other tools cannot tell from a control token")
    if kind == "unigram":
        lowest = min(score for _, score in model["vocab"]) - 100.0
        return {**model, "vocab": [*([name, lowest] for name in names), *model["vocab"]], "unk_id": None}
    symbols = sorted(symbols, key=model["vocab"].__getitem__)[kind in MISSING :]
    vocab = {symbol: i for i, symbol in enumerate([*names, *symbols])}
    return {**model, "vocab": vocab} if kind == "bpe" else {**model, "vocab": vocab, "unk_token": SHOWN_UNKNOWN}
