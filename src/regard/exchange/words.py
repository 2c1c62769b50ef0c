"""Tokenizers of other tools, sentencepiece's among them, read into one that keeps their ids; and ours for other tools,
as one tokenizer.json of the `tokenizers` library, with our ids."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from regard.data.library import MISSING, set_parts
from regard.data.parts import LONGEST, check_charsmap, load_library, no_panic
from regard.data.tokenizer import CODE, ENDS, MASK, NAMES, SHOWN_UNKNOWN, ForeignTokenizer, Tokenizer, Tokenizers
from regard.errors import UserError
from regard.exchange.installed import installed
from regard.files import read_regular, write
from regard.tasks.folder import Loaded

SPACE = "▁"
BERT_ROLES = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")}
ROLES = {**BERT_ROLES, **dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), NAMES, strict=True))}
PLAIN = {"special": True, "single_word": False, "rstrip": False, "normalized": False}
_spaces = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
DECODERS: dict[str, decoders.Decoder] = dict.fromkeys(("BPE", "Unigram"), decoders.Sequence(_spaces))
DECODERS["WordPiece"] = decoders.WordPiece(cleanup=False)
# Of sentencepiece's models.
LARGEST, MOST_PIECES = 8 << 20, 1 << 19  # bytes of a file, and pieces in it
NORMAL, UNKNOWN, CONTROL, _, UNUSED, BYTE = range(1, 7)  # what a piece can be; 4: a word that its maker chose
KINDS = {1: ("unigram", {NORMAL, UNKNOWN, CONTROL, UNUSED}), 2: ("bpe", {NORMAL, UNKNOWN, CONTROL, BYTE})}
MARKS = ("</s>", "<unk>", "<pad>")
Piece = tuple[str, float, int]  # with its score, and what it is


def read_tokenizer(folder: Path, vocabulary: int = 0, controls: Mapping[int, str] = {}) -> ForeignTokenizer | None:
    """That of a Hugging Face folder, if it has one; the model, if there is one, tells how many words there are, and as
    `controls` the ids that no text may spell."""
    with no_panic(f"{folder}: its tokenizer cannot be read"):
        if (folder / "tokenizer.json").is_file():
            content = json.loads(read_regular(folder / "tokenizer.json"))
            named = {int(token["id"]): str(token["content"]) for token in content["added_tokens"] if token["special"]}
            size = vocabulary or load_library(content).get_vocab_size()
            return ForeignTokenizer(content, {**controls, **named}, size, _frame(content))
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


def _wordpiece(folder: Path, vocabulary: int) -> ForeignTokenizer:
    words = read_regular(folder / "vocab.txt").decode().removesuffix("\n").split("\n")
    settings = folder / "tokenizer_config.json"
    lowercase = json.loads(read_regular(settings)).get("do_lower_case", True) if settings.is_file() else True
    library = Library(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=bool(lowercase))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    controls = {i: word for i, word in enumerate(words) if word in BERT_ROLES.values()}
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


def write_tokenizer(folder: Path, tokenizer: Tokenizer, loaded: Loaded) -> None:
    """That of the source or of the target of a model, which says how its texts are framed."""
    whole, reads = loaded.spec.form != "prompt", loaded.spec.form == "example"
    if count := len(tokenizer.new_words):
        raise UserError(f"the tokenizer has {count} new words, which other tools would tell otherwise")
    library = library_of(tokenizer, whole=whole, start=loaded.model.start, reads=reads)
    known = {token.content for token in library.get_added_tokens_decoder().values()}
    roles = {role: name for role, name in ROLES.items() if name in known}
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
            controls[NAMES.index("<unk>")] = SHOWN_UNKNOWN
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
