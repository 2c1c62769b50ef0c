"""Models for other tools, each checked on the spot: the same few texts are decoded here and there."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.data.tokenizer import UNKNOWN, Tokenizer, Tokenizers
from regard.decode.config import Greedy
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.exchange.ctranslate2 import decode_ctranslate2, write_ctranslate2
from regard.exchange.huggingface import GENERATION, kind_of, write_folder
from regard.exchange.installed import installed
from regard.exchange.onnx import write_onnx
from regard.exchange.onnxrun import OnnxModel
from regard.exchange.readers import write_reader
from regard.exchange.vocabulary import write_tokenizer
from regard.files import new_folder, write
from regard.models.config import ReaderConfig
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.folder import Loaded

AT_RANDOM, LONGEST = 8, 48  # texts of words at random that are decoded both ways, and tokens of an output at most
NEVER = -1e4  # a bias that half precision can hold
SAME = 1e-4  # difference of an encoder's numbers that rounding explains
Rows = list[list[int]]


def export(loaded: Loaded, kind: str, out: Path, texts: Sequence[str] = ()) -> str:
    """Write a model, decode texts (or words at random) both ways, and tell how that went; a failed one is undone."""
    if kind not in FORMATS:
        raise UserError(f"--to {kind}: there is no such format; choose native, {', '.join(FORMATS)}")
    if isinstance(loaded.config, ReaderConfig) and kind != "huggingface":
        raise UserError(f"--to {kind} is for models that write; a reader goes --to huggingface")
    if loaded.tokenizers is None:
        raise UserError("this model came without the files of its tokenizer; copy them beside it first")
    new_place(out)
    with new_folder(out) as folder:
        told = FORMATS[kind](loaded, folder, rows_of(loaded, loaded.tokenizers, texts))
        with_words = _write_words(folder, loaded, loaded.tokenizers)
        return told if with_words else f"{told}; without a tokenizer: use the sentencepiece models that it came with"


def new_place(out: Path) -> None:
    """Raise where something is already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is there already; name a new folder")
    if out.is_dir():
        out.rmdir()


def _huggingface(loaded: Loaded, folder: Path, rows: Rows) -> str:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if isinstance(loaded.config, ReaderConfig):
        return write_reader(loaded, folder, rows)
    model, kind = loaded.model, kind_of(loaded.model.config)
    write_folder(folder, model, kind)
    if loaded.search.never:
        marks = {"decoder_start_token_id": model.start, "pad_token_id": model.start, "eos_token_id": model.end}
        never = {"bad_words_ids": [[i] for i in loaded.search.never]}
        write(folder / GENERATION, json.dumps({**marks, **never}).encode())
    hf = installed("transformers")
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    where = f"transformers {hf.__version__}"
    if loaded.task == "masked":
        return f"{kind}, {_compare_vectors(loaded, hf.AutoModel.from_pretrained(folder).eval(), rows, where)}"
    classes = {"language": hf.AutoModelForCausalLM, "translation": hf.AutoModelForSeq2SeqLM}
    theirs = classes[loaded.task].from_pretrained(folder).eval()

    def decode(row: list[int]) -> list[int]:
        how = {"do_sample": False, "num_beams": 1, "max_new_tokens": _longest(loaded), "pad_token_id": model.end}
        ids = torch.tensor([row])
        said: list[int] = theirs.generate(ids, attention_mask=torch.ones_like(ids), **how)[0].tolist()
        return said[len(row) if loaded.task == "language" else 1 :]

    return f"{kind}, {_compare(loaded, rows, [decode(row) for row in rows], where)}"


def _ctranslate2(loaded: Loaded, folder: Path, rows: Rows) -> str:
    assert loaded.tokenizers is not None
    source, target = words(loaded.tokenizers.source), words(loaded.tokenizers.target)
    found = [i for i in map(loaded.tokenizers.target.id_of, ("<unk>", "[UNK]")) if i is not None]
    write_ctranslate2(folder, _silenced(loaded), source, target, target[[*found, UNKNOWN][0]])
    said = decode_ctranslate2(folder, [[source[i] for i in row] for row in rows], _longest(loaded))
    numbers = {word: i for i, word in enumerate(target)}
    theirs = [[numbers[word] for word in row] for row in said]
    return _compare(loaded, rows, theirs, f"CTranslate2 {installed('ctranslate2').__version__}")


def _onnx(loaded: Loaded, folder: Path, rows: Rows) -> str:
    write_onnx(folder, _silenced(loaded))
    found = OnnxModel(folder).greedy(rows, _longest(loaded))
    return _compare(loaded, rows, found, f"onnxruntime {installed('onnxruntime').__version__}")


def _silenced(loaded: Loaded) -> Any:
    """The model, with a bias against what it must not say, for tools that are not told so."""
    model = copy.deepcopy(loaded.model)
    if loaded.search.never:
        if model.head.bias is None:
            raise UserError(
                f"tokens {loaded.search.never} must not be said, and this model has no bias to keep from it"
            )
        model.head.bias.data[list(loaded.search.never)] = NEVER
    return model


def words(tokenizer: Tokenizer) -> list[str]:
    """A name of its own for every id."""
    named = dict[str, int]()
    for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary))):
        named[piece if piece and piece not in named else f"<{i}>"] = i
    return list(named)


def _write_words(folder: Path, loaded: Loaded, tokenizers: Tokenizers) -> bool:
    """One tokenizer, or one for each side in a folder of its own; none whose ids are not their library's."""
    if "words" in tokenizers.source.content():
        return False
    joint = tokenizers.source is tokenizers.target
    both = {"": tokenizers.source} if joint else {"source": tokenizers.source, "target": tokenizers.target}
    for name, tokenizer in both.items():
        (folder / name).mkdir(exist_ok=True)
        how = {"whole": loaded.task != "language", "reads": isinstance(loaded.config, ReaderConfig)}
        write_tokenizer(folder / name, tokenizer, start=loaded.model.start, max_length=loaded.max_length, **how)
    return True


def rows_of(loaded: Loaded, tokenizers: Tokenizers, texts: Sequence[str]) -> Rows:
    """Texts as the model reads them, or as many of words drawn at random."""
    source, model = tokenizers.source, loaded.model
    if texts:
        ids = source.encode(texts, spaced=loaded.task != "language")
    else:
        draw = Key(0, ("export",)).generator()
        low, high = min(8, source.vocabulary - 1), source.vocabulary
        ids = [draw.integers(low, high, size=int(draw.integers(3, 12))).tolist() for _ in range(AT_RANDOM)]
    room = loaded.max_length - 2 if _bounded(model) else None
    if loaded.task == "language":
        room = None if room is None else max(1, room // 2)
        return [source.prompt(row[:room], model.start) for row in ids]
    marked = loaded.task == "masked" or isinstance(loaded.config, ReaderConfig)
    return [[model.start, *row[:room], model.end] if marked else source.framed(row[:room]) for row in ids]


def _bounded(model: Any) -> bool:
    """Whether there is an end to its positions, or to what it looks back on."""
    config = getattr(model.config, "trunk", model.config)
    position = getattr(config, "position", None)
    return getattr(config, "context", None) is not None or getattr(position, "max_length", None) is not None


def _longest(loaded: Loaded) -> int:
    """Tokens of an output at most, within what its positions allow."""
    return max(1, min(LONGEST, loaded.max_length // 2 - 1)) if _bounded(loaded.model) else LONGEST


def _compare(loaded: Loaded, rows: Rows, said: Rows, where: str) -> str:
    """Greedy tokens, one by one."""
    model = loaded.model
    search = Greedy(max_length=_longest(loaded), never=loaded.search.never)
    ours = [best[0].tokens for best in TorchEngine(model).decode(rows, search)]
    theirs = [ids[: ids.index(model.end) + 1] if model.end in ids else ids for ids in said]
    odd = [number for number, (a, b) in enumerate(zip(ours, theirs, strict=True), 1) if a != b]
    if odd:
        raise UserError(
            f"{where} decodes {len(odd)} of {len(rows)} texts otherwise (the first is {odd[0]}); not exported"
        )
    return f"checked: {len(rows)} of {len(rows)} texts decode to the same tokens here and in {where}"


@torch.no_grad()
def _compare_vectors(loaded: Loaded, theirs: Any, rows: Rows, where: str) -> str:
    largest = 0.0
    for row in rows:
        ours = loaded.model(Padded.of([row]))
        largest = max(largest, float((ours - theirs(torch.tensor([row])).last_hidden_state).abs().max()))
    if largest > SAME:
        raise UserError(f"the numbers of {where} differ by {largest:.1e}; not exported")
    return f"checked: vectors of {len(rows)} texts differ by {largest:.1e} at most here and in {where}"


FORMATS: dict[str, Callable[[Loaded, Path, Rows], str]] = {
    "huggingface": _huggingface,
    "ctranslate2": _ctranslate2,
    "onnx": _onnx,
}
