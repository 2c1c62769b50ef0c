"""The native engine's library, compiled on first use into a private cache."""

import ctypes as c
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from regard.errors import UserError
from regard.files import broken, write_manifest
from regard.progress import say

SOURCES = Path(__file__).with_name("native")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-Wno-psabi", "-Wno-ignored-attributes")
SECONDS = 300
MEND = "set XDG_CACHE_HOME to a folder of yours"
LIBRARY = "native.so"


class NoLibraryError(UserError):
    """There is none, and it cannot be made."""


def compiler() -> str | None:
    names = (os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def library(*sizes: int) -> c.CDLL:
    """Compiled if need be, with structures of these sizes; it is loaded from nowhere but the user's own cache."""
    path = _built()
    try:
        found = c.CDLL(str(path))
    except OSError as error:
        raise NoLibraryError(f"{path}: cannot be loaded ({error}); remove it, and it is compiled again") from error
    found.regard_size.restype = c.c_int64
    if any(found.regard_size(i) != size for i, size in enumerate(sizes)):
        raise NoLibraryError("the native engine is of another version; install Regard again, or use `engine` torch")
    found.regard_close.argtypes = [c.c_void_p]
    found.regard_decode.argtypes = [c.c_void_p, c.c_void_p, c.c_int32, c.c_char_p, c.c_int64]
    return found


def _built() -> Path:
    texts = [path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.suffix in (".cpp", ".hpp")]
    extra = tuple(os.environ.get("REGARD_NATIVE_FLAGS", "").split())
    named = blake2b(repr((texts, FLAGS, extra, platform.machine(), sys.platform)).encode(), digest_size=8).hexdigest()
    folder = _private()
    path = folder / f"native-{named}"
    if path.exists() and broken(path) is None:  # a library that is cut short would kill the process that loads it
        return path / LIBRARY
    using = compiler()
    if using is None:
        raise NoLibraryError("the native engine needs a C++ compiler, once; install g++, or use `engine` torch")
    say("compiling the native engine (once, some seconds)")
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            aside = Path(place) / "whole"
            aside.mkdir()
            command = [using, *FLAGS, *extra, "-o", str(aside / LIBRARY), str(SOURCES / "native.cpp")]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
            write_manifest(aside)
            shutil.rmtree(path, ignore_errors=True)  # a damaged one
            with suppress(FileExistsError):  # another process was faster
                aside.rename(path)
    except subprocess.CalledProcessError as error:
        why = f"{using} cannot compile the native engine: {error.stderr[-500:]}"
        raise NoLibraryError(f"{why}; use `engine` torch") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"the native engine cannot be compiled into {folder} ({error})"
        raise NoLibraryError(f"{why}; {MEND}, or use `engine` torch") from error
    return path / LIBRARY


def _private() -> Path:
    """A folder that no one else can write to."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
        for each in (*reversed(folder.parents), folder):  # parents=True would give theirs any umask's mode
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise NoLibraryError(f"no folder for the native engine can be made ({error}); {MEND}") from error
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NoLibraryError(f"{folder}: others can write to it, so no library is loaded from there; chmod 700 it")
    return folder
