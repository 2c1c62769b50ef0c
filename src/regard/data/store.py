"""What models read of a corpus, on disk, for corpora larger than memory: flat files, mapped and never loaded whole.

Rows are of token ids, or of vectors, (T, F) float32.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import files
from regard.errors import UserError
from regard.shapes import Row

INDEX = "index.json"
SIDES = ("source", "target")
OFFSET, VECTORS = np.dtype("<i8"), np.dtype("<f4")
CHUNK = 1 << 18  # ids gathered before a write


def build(folder: Path, rows: Iterable[tuple[Row, Row]], *, vocabulary: int) -> None:
    """Write rows of (source, target) as they come; the folder appears at the end, whole, or not at all."""
    if folder.exists():
        raise UserError(f"{folder}: there is something already; remove it, or choose another place")
    dtype = np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")
    with files.new_folder(folder) as aside:
        with ExitStack() as stack:
            both = [_Writer(aside, side, dtype, vocabulary, stack) for side in SIDES]
            for row in rows:
                for writer, values in zip(both, row, strict=True):
                    writer.add(values)
            for writer in both:
                writer.write()
        count, tokens = both[0].rows, [writer.written for writer in both]
        if count == 0:
            raise UserError(f"{folder}: no pairs to store; check that the data are not all blank or too long")
        index = {"format": "regard-store", "version": 1, "dtype": dtype.name, "rows": count, "tokens": tokens}
        index["features"] = [writer.features for writer in both]  # of ids 0
        (aside / INDEX).write_bytes(json.dumps(index).encode())
        files.write_manifest(aside)  # flushes them all


def stored(folder: Path, rows: Callable[[], Iterable[tuple[Row, Row]]], *, vocabulary: int) -> "Store":
    """The store in a folder, made now if there is none, or one that was damaged: the same data give the same store."""
    if files.broken(folder):
        shutil.rmtree(folder, ignore_errors=True)
        build(folder, rows(), vocabulary=vocabulary)
    return Store.open(folder)


class Store:
    """A finished store; `lengths` are those of (sources, targets)."""

    def __init__(self, tokens: list[NDArray[Any]], offsets: list[NDArray[np.int64]]) -> None:
        self._tokens, self._offsets = tokens, offsets
        self.lengths = tuple(np.diff(ends).astype(np.int32) for ends in offsets)

    @staticmethod
    def open(folder: Path) -> "Store":
        """Map what `build` wrote, after checking that it is all there and unchanged."""
        try:
            if reason := files.broken(folder):
                raise ValueError(reason)
            index = json.loads((folder / INDEX).read_bytes())
            if index["format"] != "regard-store" or index["version"] != 1 or index["dtype"] not in ("uint16", "uint32"):
                raise ValueError(f"{INDEX} is of another kind")
            dtype = np.dtype(index["dtype"]).newbyteorder("<")
            sides = zip(SIDES, index["tokens"], index.get("features", (0, 0)), strict=True)
            tokens = [_map(folder / f"{side}.tokens", VECTORS if f else dtype, n, f) for side, n, f in sides]
            offsets = [_map(folder / f"{s}.offsets", OFFSET, index["rows"] + 1) for s in SIDES]
            store = Store(tokens, offsets)
            for held, ends, lengths in zip(tokens, offsets, store.lengths, strict=True):
                if ends[0] != 0 or ends[-1] != len(held) or lengths.min(initial=0) < 0:
                    raise ValueError("the offsets do not fit the tokens")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{folder}: no whole token store ({error}); remove it and it is made anew") from error
        return store

    def __len__(self) -> int:
        return len(self.lengths[0])

    @property
    def stream(self) -> NDArray[Any]:
        """All sources, one after the other."""
        return self._tokens[0]

    def pair(self, i: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Source and target of row i, as read-only views."""
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} of {len(self)}")
        source, target = (t[o[i] : o[i + 1]] for t, o in zip(self._tokens, self._offsets, strict=True))
        return source, target


class _Writer:
    """One side of a store in the making."""

    def __init__(self, folder: Path, side: str, dtype: np.dtype[Any], vocabulary: int, stack: ExitStack) -> None:
        self.tokens = stack.enter_context((folder / f"{side}.tokens").open("wb"))
        self.offsets = stack.enter_context((folder / f"{side}.offsets").open("wb"))
        self.dtype, self.vocabulary, self.features = dtype, vocabulary, 0
        self.ids, self.ends = list[int](), [0]
        self.rows, self.written = 0, 0

    def add(self, row: Row) -> None:
        self.rows += 1
        if isinstance(row, np.ndarray) and row.ndim == 2:
            self.features = row.shape[1]
            self.tokens.write(row.astype(VECTORS).tobytes())
            self.written += len(row)
        else:
            self.ids += row
        self.ends.append(self.written + len(self.ids))
        if len(self.ids) + len(self.ends) > CHUNK:
            self.write()

    def write(self) -> None:
        ids = np.array(self.ids, np.int64)
        if len(ids) and (ids.min() < 0 or ids.max() >= self.vocabulary):
            raise UserError(f"ids {ids.min()} to {ids.max()} are outside {self.vocabulary} words; use one tokenizer")
        self.tokens.write(ids.astype(self.dtype).tobytes())
        self.offsets.write(np.array(self.ends, OFFSET).tobytes())
        self.written += len(ids)
        self.ids, self.ends = [], []


def _map(path: Path, dtype: np.dtype[Any], count: int, features: int = 0) -> NDArray[Any]:
    """(count,), or (count, features)."""
    size, wanted = path.stat().st_size, count * dtype.itemsize * (features or 1)
    if size != wanted:
        raise ValueError(f"{path.name} has {size} bytes, not {wanted}")
    flat = np.asarray(np.memmap(path, dtype, "r")) if count else np.zeros(0, dtype)  # nothing cannot be mapped
    return flat.reshape(-1, features) if features else flat
