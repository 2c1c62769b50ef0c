"""Models from anywhere: folders of ours, and whatever else is known."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from regard.data.tokenizer import Tokenizers
from regard.errors import UserError
from regard.tasks.folder import CONFIG, FORMAT, Loaded, load_folder, load_tokenizers, read_json


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
    """By what it is: a file by its ending, a folder by its config.json, a package by the folder that it carries."""
    path = placed(path)
    if not path.is_file() and read_json(path).get("format") == FORMAT:
        return load_folder(path)
    from regard.exchange.foreign import load_foreign  # here, so that folders of ours cost no torch

    return load_foreign(path)


def words_of(folder: Path) -> Tokenizers:
    """The tokenizer of a model, or one whose files stand alone."""
    from regard.exchange.words import read_tokenizer

    if not folder.exists():
        raise UserError(
            f"{folder}: is no folder, and no installed package of that name carries a model; check the name"
        )
    if any((folder / name).is_file() for name in ("recipe.yaml", "tokenizer-source.json")):
        return load_tokenizers(folder)
    if folder.is_file() or (folder / CONFIG).is_file():
        found = load_any(folder).tokenizers
    else:
        alone = read_tokenizer(folder)
        found = None if alone is None else Tokenizers(alone, alone)
    if found is None:
        raise UserError(
            f"{folder}: holds no tokenizer; it needs tokenizer.json, vocab.json and merges.txt, or vocab.txt"
        )
    return found
