"""Files that are whole or not there: written aside, flushed to the disk, and renamed."""

import contextlib
import difflib
import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

from regard.errors import UserError

MANIFEST = "MANIFEST.json"
MARK = ".tmp-"  # begins the name of what is not finished
SUM = "sha256"  # the key of a JSON file's own sum
_sums: dict[object, str] = {}  # of files that this process has read whole, by their states, which change with them


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What fails while this file or folder is written is told with its name."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: cannot be written ({why}); free the disk or choose another place") from error


def write(path: Path, data: bytes) -> None:
    """Replace a file in one instant."""
    aside = path.with_name(f"{MARK}{path.name}")
    with writing(path):
        try:
            _write_through(aside, data)
            os.replace(aside, path)
            _flush(path.parent)
        finally:
            with contextlib.suppress(OSError):
                aside.unlink()


def append(path: Path, data: bytes) -> None:
    """Add to a file, down to the disk."""
    with writing(path):
        _write_through(path, data, "ab")


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Only one process at a time holds this file; `busy` is what another one is told."""
    with writing(path):
        file = path.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise BlockingIOError  # the other process has finished just now
        except BlockingIOError as error:
            raise UserError(busy) from error
        yield


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill: it appears in one instant, whole, or not at all."""
    aside = path.with_name(f"{MARK}{path.name}")
    with writing(path):
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            yield aside
            _flush(aside)
            os.rename(aside, path)
            _flush(path.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def write_folder(path: Path, contents: Mapping[str, Callable[[Path], None] | bytes]) -> None:
    """Make a folder of files, with a manifest of their sums; a finished one stays as it is."""
    with new_folder(path) as aside:
        for name, content in contents.items():
            if isinstance(content, bytes):
                (aside / name).write_bytes(content)
            else:
                content(aside / name)
        write_manifest(aside)


def write_manifest(folder: Path) -> None:
    """The size and sum of each file in a folder, by which `broken` checks them."""
    paths = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    for path in paths:
        _flush(path)
    sums = {path.name: {"bytes": path.stat().st_size, "sha256": digest(path)} for path in paths}
    _write_through(folder / MANIFEST, json.dumps(sums, indent=1).encode())


def broken(folder: Path) -> str | None:
    """Why a folder with a manifest cannot be trusted, or None."""
    try:
        sums = json.loads((folder / MANIFEST).read_bytes())
        for name, wanted in sums.items():
            if Path(name).name != name:
                return f"{MANIFEST} names {name!r}, which is no file beside it"
            size = (folder / name).stat().st_size
            if size != wanted["bytes"]:
                return f"{name} has {size} bytes, not {wanted['bytes']}"
            if digest(folder / name) != wanted["sha256"]:
                return f"{name} has changed since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def sealed(content: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """JSON with the sum of its content, which `unsealed` checks."""
    return json.dumps({**content, SUM: _sum(content)}, indent=indent).encode()


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content without its sum; raises ValueError where they differ. A file of an older version has none."""
    rest = {key: value for key, value in content.items() if key != SUM}
    if SUM in content and content[SUM] != _sum(rest):
        raise ValueError(f"its content does not fit its {SUM}: it was damaged, or changed by hand")
    return rest


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def input_digest(path: Path) -> str:
    """As `digest`, of a file that is only read here: nothing is read if `open_hashed` has read it to its end."""
    return _sums.get(state(path.stat())) or digest(path)


def open_hashed(path: Path) -> BinaryIO:
    """A file to read, whose sum is known once its end was reached."""
    return path.open("rb") if state(path.stat()) in _sums else io.BufferedReader(_Hashed(path), 1 << 18)


class _Hashed(io.FileIO):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sum, self.state = hashlib.sha256(), state(os.fstat(self.fileno()))

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.sum.update(memoryview(buffer)[: count or 0])
        if count == 0:
            _sums[self.state] = self.sum.hexdigest()
        return count


def check_space(folder: Path, needed: int) -> None:
    """Raise before a write that the disk has no room for."""
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(f"{folder}: {needed / 1e6:.1f} MB are needed, {free / 1e6:.1f} MB free; make room first")


def cannot_read(path: Path, error: OSError | ValueError) -> UserError:
    names = []
    with contextlib.suppress(OSError, ValueError):
        names = os.listdir(path.parent)
    near = [] if path.name in names else difflib.get_close_matches(path.name, names, n=1)
    mend = f"did you mean {path.with_name(near[0])}?" if near else "check the name and that it is a file you may read"
    return UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); {mend}")


def _write_through(path: Path, data: bytes, mode: Literal["wb", "ab"] = "wb") -> None:
    with path.open(mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path, limit: int = sys.maxsize) -> BinaryIO:
    """A file to read, once it is known to be a regular one of at most `limit` bytes: no pipe that never ends."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for a pipe's writer
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise cannot_read(path, error) from error
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size <= limit:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: has {status.st_size:,} bytes, and at most {limit:,} are read; check the name")
    raise UserError(f"{path}: is a folder, a pipe or a device; give a regular file, and write to one what a pipe gives")


def read_regular(path: Path, limit: int = 64 << 20) -> bytes:
    with open_regular(path, limit) as file:
        return file.read(limit + 1)
