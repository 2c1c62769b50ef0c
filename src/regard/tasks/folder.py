"""Model folders: self-contained, raw text in and out, no pickle; named as the Hugging Face Hub names things."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from regard.bounds import check_bound
from regard.data.input import FILE as INPUT
from regard.data.input import load_input
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Search
from regard.engine.prepare import NATIVE, Array, Prepared, UnfitError, packed, prepare, prepared_of, read_arrays
from regard.engine.prepare import read_prepared as read_native
from regard.errors import UserError
from regard.files import SUM, read_regular, sealed, unsealed, write
from regard.models.config import ModelConfig
from regard.tasks.registry import FORMER, TASKS
from regard.tasks.spec import TaskSpec

MODEL, CONFIG = "model.safetensors", "config.json"
FORMAT, VERSION = "regard", 1
MOST_CONFIG = 1 << 20  # bytes


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model with all it needs, from a folder of ours or from elsewhere; its weights are read when they are wanted."""

    task: str
    config: ModelConfig
    tokenizers: Tokenizers | None
    """None where the words did not come with the weights."""
    search: Search
    max_length: int
    """Tokens of the longest text that it was trained on."""
    name: str
    """Changes whenever the model does."""
    make: Callable[[], Any]
    """The model as PyTorch has it."""
    native: Callable[[], Prepared]
    """The same as the native engine has it."""
    folder: Path

    @cached_property
    def model(self) -> Any:
        return self.make()

    @property
    def spec(self) -> TaskSpec:
        return TASKS[self.task]

    @property
    def words(self) -> Tokenizers:
        """Its tokenizers, which it must have."""
        if self.tokenizers is None:
            raise UserError(f"{self.folder}: holds no tokenizer; copy its files there too, or use .logits(ids)")
        return self.tokenizers


def loaded_of(
    task: str, search: Search, model: Any, tokenizers: Tokenizers | None, max_length: int, path: Path | None = None
) -> Loaded:
    """A model that is made already, read from a file or in training."""
    name, folder = ("", Path()) if path is None else (stamp(path), path.parent)
    make, native = (lambda: model), (lambda: prepared_of(model))
    return Loaded(task, model.config, tokenizers, search, max_length, name, make, native, folder)


JOINT, SOURCE, TARGET = "tokenizer.json", "tokenizer-source.json", "tokenizer-target.json"


def save_tokenizers(folder: Path, tokenizers: Tokenizers) -> None:
    """Once, before the first step; what reads the source comes last, so that where it is, all are."""
    source, target = tokenizers.source, tokenizers.target
    if source is not target:
        target.save(folder / TARGET)
    source.save(folder / (INPUT if source.front is not None else JOINT if source is target else SOURCE))


def has_tokenizers(folder: Path) -> bool:
    """Whether all are there: a kill may have come between the two."""
    joint, source, target, other = ((folder / name).exists() for name in (JOINT, SOURCE, TARGET, INPUT))
    return joint or other or (source and target)


def load_tokenizers(folder: Path) -> Tokenizers:
    name = next((name for name in (INPUT, JOINT) if (folder / name).exists()), SOURCE)
    source: Any = load_input(folder / name) if name == INPUT else Tokenizer.load(folder / name)
    no_target = name == INPUT and not (folder / TARGET).exists()  # an input alone stands for its tokenizer too
    return Tokenizers(source, source if no_target or name == JOINT else Tokenizer.load(folder / TARGET))


def save_model(folder: Path, model: Any, task: str, search: Search, max_length: int, metrics: dict[str, float]) -> None:
    """Weights and settings; each file is replaced in one instant."""
    from regard.nn.lora import merged_tensors

    write(folder / MODEL, packed({name: p.numpy(force=True) for name, p in merged_tensors(model)}))
    save_settings(folder, model.config, task, search, max_length, metrics)


def save_settings(
    folder: Path, config: ModelConfig, task: str, search: Search, max_length: int, metrics: dict[str, float]
) -> None:
    described = {"format": FORMAT, "version": VERSION, "task": task, "model": asdict(config), "search": asdict(search)}
    write(folder / CONFIG, sealed({**described, "max_length": max_length, "metrics": metrics}))


def load_folder(folder: Path) -> Loaded:
    """What `regard train`, `regard import` or `regard export --to native` wrote."""
    path, described = folder / CONFIG, read_json(folder)
    if described.get("format") != FORMAT:
        raise UserError(f'{path}: is not a Regard model (no "format": "{FORMAT}")')
    if described.get("version") != VERSION:
        raise UserError(f"{path}: has format version {described.get('version')!s:.60}; this Regard reads {VERSION}")
    try:
        described = unsealed(described)
    except ValueError as error:
        raise UserError(f"{path}: {error}; copy the folder again, or remove {SUM} if the change is yours") from error
    task = str(described.get("task"))
    spec = TASKS.get(FORMER.get(task, task))
    if spec is None:
        raise UserError(f"{path}: is a model for {task:.60}; this Regard knows {', '.join(TASKS)}")
    shape = _valid(spec.models, described, "model", path)
    search: Search = _valid(type(spec.search), described, "search", path)
    max_length: int = _valid(int, described, "max_length", path)
    if (folder / NATIVE).exists():
        make, native = partial(_only_native, folder), partial(read_native, folder / NATIVE, shape)
    else:
        make, native = partial(_model, folder / MODEL, shape), partial(_prepared, folder / MODEL, shape)
    return Loaded(spec.name, shape, load_tokenizers(folder), search, max_length, stamp(path), make, native, folder)


def _model(path: Path, config: ModelConfig) -> Any:
    from torch import from_numpy

    from regard.models.build import MODELS, shapes_of

    found, expected = _weights(path), shapes_of(config)
    stored = {name: x.shape for name, x in found.items()}
    problems = [
        f"{name} is {stored.get(name, 'missing')}, where {expected.get(name, 'nothing')} is expected"
        for name in sorted(expected.keys() | stored.keys())
        if stored.get(name) != expected.get(name)
    ]
    if problems:
        raise UserError(f"{path}: does not fit {CONFIG}: " + "; ".join(problems[:20]))
    model = MODELS[type(config)](config)
    model.load_state_dict({name: from_numpy(x) for name, x in found.items()}, strict=False)  # tied: stored once
    return model


def _prepared(path: Path, config: ModelConfig) -> Prepared:
    try:
        return prepare(config, _weights(path))
    except UnfitError as error:
        raise UserError(f"{path}: does not fit {CONFIG}: {error}; copy the folder again, or train again") from error


def _only_native(folder: Path) -> Any:
    raise UserError(f"{folder}: was prepared for the native engine, without other weights; use the one it was made of")


def stamp(path: Path) -> str:
    """A file, and when it was last changed."""
    return f"{path.resolve()} {path.stat().st_mtime_ns}"


def read_json(folder: Path) -> dict[str, Any]:
    """The config.json of a folder."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give the folder that `regard train` wrote as `out`")
    if not path.exists():
        raise UserError(f"{path}: is missing: {folder} is no model, or awaits its first evaluation")
    data = read_regular(path, MOST_CONFIG)
    try:
        described = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    if not isinstance(described, dict):
        raise UserError(f"{path}: is no page of settings; copy the folder again")
    return described


def _valid(schema: Any, described: dict[str, Any], name: str, path: Path) -> Any:
    try:
        valid = TypeAdapter(schema).validate_python(described.get(name))
        check_bound(name, valid)
        return valid
    except UserError as error:
        raise UserError(f"{path}: {name}: {error}") from error
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, (name, *e['loc'])))}: {e['msg']}" for e in error.errors()[:5])
        raise UserError(f"{path}: {told}; copy the folder again, or train again") from error


def _weights(path: Path) -> dict[str, Array]:
    """The tensors of a file."""
    tensors, _ = read_arrays(path, ("F64", "F32", "F16"))
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise UserError(f"{path}: {name} holds numbers that are not finite; the file is damaged")
    return tensors
