"""Sequences of vectors of real numbers, from .csv, .tsv, .npy and .npz files, or as JSON."""

import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard import files
from regard.data.axes import Times
from regard.data.config import VectorsConfig
from regard.data.input import beside
from regard.data.text import check_regular, lines
from regard.errors import UserError
from regard.shapes import Row

Array = NDArray[Any]
LARGEST = 256 << 20  # bytes of a file, and of an array in it
MOST_FEATURES = 1 << 12
TABLES = (".csv", ".tsv", ".npy")  # a recording each: a row for each step
SUCH = "an array x of items x steps x features, lengths where items are shorter, and y with their labels"


@dataclass(frozen=True)
class Vectors:
    """Features are brought to mean 0 and deviation 1, as the recordings to train on have them."""

    settings: VectorsConfig
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    files: bool = True
    """Whether items may name files."""

    vocabulary: ClassVar[int] = 0
    tags: ClassVar[tuple[str, ...]] = ()
    many: ClassVar[tuple[str, ...]] = (".npz",)

    @classmethod
    def items(cls, path: Path) -> Iterator[tuple[str, Any]]:
        if path.suffix == ".npz":
            many = _items(path, files.state(check_regular(path).stat()))
            yield from ((f"{path.resolve()}#{i}", label) for i, (_, label) in enumerate(many))
        elif path.suffix in TABLES:
            yield str(path.resolve()), None
        else:
            yield from ((beside(line, path), None) for line in lines(path, strict=True))

    @classmethod
    def learned(cls, settings: VectorsConfig, items: Iterable[str]) -> "Vectors":
        raw = cls(settings, (), ())
        arrays = (raw.array(item) for item in items if item.strip())
        first = next(arrays, None)
        if first is None:
            raise UserError("no recording to train on; give at least one")
        about, sums, count = first.mean(0, np.float64), np.zeros((2, first.shape[1])), 0
        for array in chain([first], arrays):
            if array.shape[1] != len(about):
                raise UserError(f"a recording has {array.shape[1]} features, and the first one has {len(about)}")
            moved = array - about
            sums += moved.sum(0), (moved**2).sum(0)
            count += len(moved)
        mean, squares = sums / count
        deviation = np.sqrt(np.maximum(squares - mean**2, 0))
        deviation[deviation == 0] = 1  # what never changes says nothing
        return cls(settings, tuple((about + mean).tolist()), tuple(deviation.tolist()))

    @classmethod
    def parsed(cls, content: dict[str, Any]) -> "Vectors":
        loaded = TypeAdapter(cls).validate_python({name: content[name] for name in ("settings", "mean", "deviation")})
        if not loaded.mean or len(loaded.mean) != len(loaded.deviation) or min(loaded.deviation) <= 0:
            raise ValueError("means and deviations do not fit")
        return loaded

    def save(self, path: Path) -> None:
        content = {name: value for name, value in asdict(self).items() if name != "files"}
        files.write(path, files.sealed({"format": "regard-input", "version": 1, "kind": self.settings.kind, **content}))

    def closed(self) -> "Vectors":
        return replace(self, files=False)

    @property
    def front(self) -> VectorsConfig:
        return replace(self.settings, features=len(self.mean) * self.settings.stack)

    def lines(self, path: Path) -> Iterator[str]:
        return (item for item, _ in self.items(path))

    def read(self, items: Sequence[str], tag: str | None = None) -> list[Row]:
        return [self._ready(self.array(item)) for item in items]

    def axis(self, row: Array) -> Times:
        return Times(len(row), self.settings.stack)

    def _ready(self, array: Array) -> Array:
        """Standardised, and as many steps joined as the settings say; the last filled up with zeros, the mean."""
        if array.shape[1] != len(self.mean):
            raise UserError(f"a recording has {array.shape[1]} features, and this model reads {len(self.mean)}")
        scaled = ((array - self.mean) / self.deviation).astype(np.float32)
        more = -len(scaled) % self.settings.stack
        return np.pad(scaled, ((0, more), (0, 0))).reshape(-1, self.front.features)

    def array(self, item: str) -> Array:
        """The numbers of an item (T, F)."""
        if item.lstrip().startswith("["):
            try:
                rows = np.array(json.loads(item), np.float32)
            except (ValueError, TypeError, RecursionError) as error:
                raise UserError("no rows of as many numbers each; write them as [[0.1, 0.2], [0.3, 0.4]]") from error
            return _checked(rows, "the numbers")
        if "\n" in item.strip():
            return _table(item, "the numbers")
        if not self.files:
            raise UserError("send numbers, a row for each step: [[0.1, 0.2], [0.3, 0.4]], or lines with commas between")
        name, mark, number = item.strip().partition(".npz#")
        path = Path(name + mark.removesuffix("#"))
        if path.suffix == ".npz":
            many = _items(path, files.state(check_regular(path).stat()))
            number = "0" if not number and len(many) == 1 else number
            if not number.isdecimal() or int(number) >= len(many):
                raise UserError(f"{path} holds {len(many)} recordings; name one of them, as {path.name}#0")
            return many[int(number)][0]
        if path.suffix not in TABLES:
            raise UserError(f"{path}: recordings are read from {', '.join((*TABLES, *self.many))}")
        if path.suffix == ".npy":
            return _checked(_arrays(path)[""], str(path))
        return _table(files.read_regular(path, LARGEST).decode("utf-8-sig", "replace"), str(path))


@lru_cache(maxsize=4)
def _items(path: Path, state: object) -> list[tuple[Array, Any]]:
    """Recordings and labels of a .npz."""
    arrays = _arrays(path)
    x = arrays.get("x", next(iter(arrays.values())) if len(arrays) == 1 else np.zeros(()))
    if "x" not in arrays and x.ndim == 2:
        return [(_checked(x, str(path)), None)]
    if x.ndim not in (2, 3) or not len(x):
        shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise UserError(f"{path}: holds {shown or 'nothing'}; write {SUCH}")
    lengths, labels = arrays.get("lengths", np.full(len(x), x.shape[1])), arrays.get("y")
    whole = lengths.shape == (len(x),) and lengths.dtype.kind in "iu"
    if not whole or lengths.min() < 1 or lengths.max() > x.shape[1] or (labels is not None and len(labels) != len(x)):
        raise UserError(f"{path}: lengths or y do not fit the {len(x)} items of x; write {SUCH}")
    answers = [None] * len(x) if labels is None else labels.tolist()
    pairs = zip(x, lengths.tolist(), answers, strict=True)
    return [(_checked(row[:n], f"{path}#{i}"), label) for i, (row, n, label) in enumerate(pairs)]


def _arrays(path: Path) -> dict[str, Array]:
    """The arrays of a .npz by their names, or the one of a .npy; none of Python objects."""
    arrays, name = dict[str, Array](), path.name
    with files.open_regular(path, LARGEST) as file:
        try:
            if path.suffix == ".npy":
                return {"": _array(file.read())}
            with zipfile.ZipFile(file) as archive:
                if sum(member.file_size for member in archive.infolist()) > LARGEST:
                    raise ValueError(f"its arrays have more than {LARGEST:,} bytes")
                for name in archive.namelist():
                    arrays[name.removesuffix(".npy")] = _array(archive.read(name))
            return arrays
        except Exception as error:  # numpy's reader of headers raises what Python's tokenizer does, and zipfile much
            raise UserError(
                f"{path}: {name} cannot be read ({error}); write it again by numpy.save or savez"
            ) from error


def _array(data: bytes) -> Array:
    """Of a .npy; its header is checked before anything of the size that it names is made."""
    file = BytesIO(data)
    read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    shape, columns_first, kind = read(file)
    if kind.hasobject or prod(shape) * kind.itemsize != len(data) - file.tell():
        raise ValueError(f"no array of numbers, but {kind} of shape {shape} in {len(data):,} bytes")
    return np.frombuffer(data, kind, offset=file.tell()).reshape(shape, order="F" if columns_first else "C")


def _table(text: str, name: str) -> Array:
    """A row of numbers for each step; a first line of names is passed over."""
    rows, between = list[list[float]](), next((mark for mark in ";\t," if mark in text), None)
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = [float(cell) for cell in line.split(between)] if line.strip() else []
            if row and rows and len(row) != len(rows[0]):
                raise ValueError(f"{len(row)} numbers, not {len(rows[0])} as before")
            rows += [row] if row else []
        except ValueError as error:
            if number > 1:
                raise UserError(f"{name}, line {number}: {error}; write as many numbers in each row") from error
    return _checked(np.array(rows, np.float32), name)


def _checked(x: Array, name: str) -> Array:
    """Finite numbers (T, F); a row of single numbers is one feature."""
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.dtype.kind not in "fiub" or 0 in x.shape or x.shape[1] > MOST_FEATURES:
        raise UserError(f"{name}: {x.dtype} of shape {x.shape}; a recording has a row of numbers for each step")
    x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        step, feature = np.argwhere(~np.isfinite(x))[0].tolist()
        raise UserError(f"{name}: step {step + 1}, feature {feature + 1} is {x[step, feature]}; fill what is missing")
    return x
