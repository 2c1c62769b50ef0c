"""Models from anywhere: folders of ours, and whatever else is known."""

from importlib.util import find_spec
from pathlib import Path

from regard.data.tokenizer import Tokenizers
from regard.errors import UserError
from regard.tasks.folder import CONFIG, FORMAT, Loaded, load_folder, load_tokenizers, read_json
from regard.tasks.registry import FORMER, spec_of

MODEL_FILES = ("config.json", "input.json", "tokenizer*", "vocab*", "merges*")  # beside the weights


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


def task_of(path: Path) -> str | None:
    """The task of the model in a folder, by its settings alone; None where there is none that is known."""
    try:
        values = read_json(placed(path))
        if values.get("format") == FORMAT:
            return FORMER.get(values["task"], values["task"])
        from regard.exchange.families import FAMILIES  # which costs torch

        return spec_of(FAMILIES[values["model_type"]].to_ours(values)).name
    except (UserError, KeyError, TypeError, StopIteration):
        return None


def load_any(path: Path) -> Loaded:
    """By its config.json; of a package, that of the folder that it carries."""
    path = placed(path)
    if read_json(path).get("format") == FORMAT:
        return load_folder(path)
    from regard.exchange.huggingface import read_folder  # here, so that folders of ours cost no torch

    return read_folder(path)


def files_of(path: Path) -> list[Path]:
    """The files that a model, or its tokenizer, is read from."""
    folder = placed(path)
    if folder.is_file():
        return [folder]
    return sorted(folder.glob("*.safetensors")) + [p for name in MODEL_FILES for p in sorted(folder.glob(name))]


def words_of(path: Path) -> Tokenizers:
    """The tokenizer of a model, or one whose files stand alone."""
    from regard.exchange.words import read_tokenizer

    folder = placed(path)
    if not folder.exists():
        raise UserError(f"{folder}: is no folder, and no installed package of that name has a model; check the name")
    if any((folder / name).is_file() for name in ("recipe.yaml", "tokenizer-source.json")):
        return load_tokenizers(folder)
    if (folder / CONFIG).is_file():
        tokenizers = load_any(folder).tokenizers
    else:
        alone = read_tokenizer(folder)
        tokenizers = None if alone is None else Tokenizers(alone, alone)
    if tokenizers is None:
        raise UserError(f"{folder}: has no tokenizer; it needs tokenizer.json, vocab.json and merges.txt, or vocab.txt")
    return tokenizers
