"""Models from elsewhere: folders in Hugging Face's layout, and single files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.tokenizer import Tokenizers
from regard.decode.config import Beam, Greedy, Sample, Search
from regard.engine.prepare import Prepared, prepare, weights_of
from regard.errors import UserError
from regard.exchange.huggingface import read_folder
from regard.exchange.llama2c import read_llama2c
from regard.exchange.words import llama2c_tokenizer
from regard.models.build import MODELS
from regard.models.config import BertConfig, Seq2seqConfig
from regard.tasks.folder import CONFIG, Loaded, stamp

TOKENIZERS = ("tokenizer.bin", "tok*.bin")  # beside a model of llama2.c


def load_foreign(path: Path) -> Loaded:
    """A folder in Hugging Face's layout, or a file of another tool."""
    if path.is_file():
        return _llama2c(path)
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
    return loaded_of(*found, model, tokenizers, max_length, path)


def loaded_of(
    task: str, search: Search, model: Any, tokenizers: Tokenizers | None, max_length: int, path: Path
) -> Loaded:
    """A model that is made already."""

    def native() -> Prepared:
        return prepare(model.config, weights_of(model))

    return Loaded(task, model.config, tokenizers, search, max_length, stamp(path), lambda: model, native, path.parent)


def _llama2c(path: Path) -> Loaded:
    if path.suffix != ".bin":
        raise UserError(f"{path}: is no folder of a model, and no .bin of llama2.c; check the name")
    config, weights, longest = read_llama2c(path)
    model = MODELS[type(config)](config)
    model.load_state_dict(weights, strict=False)  # tied tables are stored once
    beside = [found for pattern in TOKENIZERS for found in sorted(path.parent.glob(pattern)) if found != path]
    if not beside:
        return _loaded(model, None, longest, path)
    tokenizer = llama2c_tokenizer(beside[0], config.vocabulary)
    return _loaded(model, Tokenizers(tokenizer, tokenizer), longest, path)
