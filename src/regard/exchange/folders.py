"""Models from anywhere: folders of ours, and whatever else is known."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.data.tokenizer import Tokenizers
from regard.decode.config import Beam, Greedy, Sample, Search
from regard.engine.prepare import Prepared, prepare, weights_of
from regard.errors import UserError
from regard.models.config import BertConfig, Seq2seqConfig
from regard.tasks.folder import CONFIG, FORMAT, Loaded, load_folder, load_tokenizers, read_json, stamp


def placed(path: Path) -> Path:
    """The folder itself, or, where there is none, the one that an installed package of that name carries."""
    package = str(path).replace("-", "_")
    try:
        spec = find_spec(package) if not path.exists() and package.isidentifier() else None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the name") from error
    for root in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        for config in sorted((*root.glob(CONFIG), *root.glob(f"*/{CONFIG}"))):
            return config.parent
    return path


def load_any(path: Path) -> Loaded:
    """By its config.json; of a package, that of the folder that it carries."""
    path = placed(path)
    if read_json(path).get("format") == FORMAT:
        return load_folder(path)
    return load_foreign(path)


def load_foreign(path: Path) -> Loaded:
    """A folder in Hugging Face's layout."""
    from regard.exchange.huggingface import read_folder  # here, so that folders of ours cost no torch

    read = read_folder(path)
    config, never = read.model.config, read.never
    task: tuple[str, Search] = "language", Sample(never=never)
    if isinstance(config, BertConfig):
        task = "masked", Greedy()
    elif isinstance(config, Seq2seqConfig):
        task = "translation", Beam(max_ratio=3.0, never=never)
    return loaded_of(*task, read.model, read.tokenizers, read.max_length, path / CONFIG)


def loaded_of(
    task: str, search: Search, model: Any, tokenizers: Tokenizers | None, max_length: int, path: Path
) -> Loaded:
    """A model that is made already."""

    def native() -> Prepared:
        return prepare(model.config, weights_of(model))

    return Loaded(task, model.config, tokenizers, search, max_length, stamp(path), lambda: model, native, path.parent)


def words_of(folder: Path) -> Tokenizers:
    """The tokenizer of a model, or one whose files stand alone."""
    from regard.exchange.words import read_tokenizer

    if not folder.exists():
        raise UserError(
            f"{folder}: is no folder, and no installed package of that name carries a model; check the name"
        )
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
