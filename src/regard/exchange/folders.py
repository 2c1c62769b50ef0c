"""Models from anywhere: folders of ours and of Hugging Face's layout, and single files of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.decode.config import Beam, Greedy, Sample, Search
from regard.errors import UserError
from regard.exchange.g2p import MOST_LETTERS, MOST_PHONES, read_g2p
from regard.exchange.huggingface import read_folder
from regard.exchange.llama2c import read_llama2c
from regard.exchange.words import llama2c_tokenizer, read_tokenizer
from regard.models.build import MODELS
from regard.models.config import BertConfig, Seq2seqConfig
from regard.tasks.folder import CONFIG, FORMAT, Loaded, load_folder, load_tokenizers, read_json, stamp
from regard.tasks.translation import Tokenizers

TOKENIZERS = ("tokenizer.bin", "tok*.bin")  # beside a model of llama2.c


def load_any(path: Path) -> Loaded:
    """By what it is: a file by its ending, a folder by its config.json."""
    if path.is_file():
        return _file(path)
    described = read_json(path)
    return load_folder(path) if described.get("format") == FORMAT else load_foreign(path)


def words_of(folder: Path) -> Tokenizers:
    """The tokenizer of a model, or one whose files stand alone."""
    if any((folder / name).is_file() for name in ("recipe.yaml", "tokenizer-source.json")):
        return load_tokenizers(folder)
    if (folder / CONFIG).is_file():
        found = load_any(folder).tokenizers
    else:
        alone = read_tokenizer(folder)
        found = None if alone is None else Tokenizers(alone, alone)
    if found is None:
        raise UserError(
            f"{folder}: holds no tokenizer; it needs tokenizer.json, vocab.json and merges.txt, or vocab.txt"
        )
    return found


def load_foreign(path: Path) -> Loaded:
    """A folder in Hugging Face's layout, or a file of another tool."""
    if path.is_file():
        return _file(path)
    read = read_folder(path)
    return _loaded(read.model, read.tokenizers, read.max_length, path / CONFIG, read.never)


def _loaded(
    model: Any, tokenizers: Tokenizers | None, max_length: int, path: Path, never: tuple[int, ...] = ()
) -> Loaded:
    found: tuple[str, Search] = "language", Sample(never=never)
    if isinstance(model.config, BertConfig):
        found = "masked", Greedy()
    elif isinstance(model.config, Seq2seqConfig):
        found = "translation", Beam(max_ratio=3.0, never=never)
    return Loaded(found[0], model, tokenizers, found[1], max_length, stamp(path))


def _file(path: Path) -> Loaded:
    if path.suffix not in FILES:
        raise UserError(f"{path}: is no folder of a model, and no .bin of llama2.c or .npz of g2p-en")
    return FILES[path.suffix](path)


def _g2p(path: Path) -> Loaded:
    config, weights, tokenizers = read_g2p(path)
    model = MODELS[type(config)](config)
    model.load_state_dict(weights)
    search = Beam(size=1, max_length=MOST_PHONES)
    return Loaded("translation", model, tokenizers, search, MOST_LETTERS, stamp(path))


def _llama2c(path: Path) -> Loaded:
    config, weights, longest = read_llama2c(path)
    model = MODELS[type(config)](config)
    model.load_state_dict(weights, strict=False)  # tied tables are stored once
    beside = [found for pattern in TOKENIZERS for found in sorted(path.parent.glob(pattern)) if found != path]
    if not beside:
        return _loaded(model, None, longest, path)
    tokenizer = llama2c_tokenizer(beside[0], config.vocabulary)
    return _loaded(model, Tokenizers(tokenizer, tokenizer), longest, path)


FILES: dict[str, Callable[[Path], Loaded]] = {".bin": _llama2c, ".npz": _g2p}
