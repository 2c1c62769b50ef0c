from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.engine.test_native import a_translator

from regard.engine import build
from regard.engine.engine import engine_of
from regard.engine.native import CTensor
from regard.models.build import build as build_model

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C++ compiler here")


@pytest.fixture(autouse=True)
def _anew() -> None:
    build.library.cache_clear()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a library that was compiled for it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("REGARD_NATIVE_FLAGS", "-O0")  # sooner
        build._built()
    return folder / "cache"


def test_it_is_compiled_once_into_a_folder_of_one_s_own(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(cache, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_NATIVE_FLAGS", "-O0")
    first = build.library()
    (path,) = (tmp_path / "cache" / "regard").iterdir()
    assert (tmp_path / "cache" / "regard").stat().st_mode & 0o077 == 0
    stamp = path.stat().st_mtime_ns
    build.library.cache_clear()
    assert build.library().regard_level() == first.regard_level()
    assert path.stat().st_mtime_ns == stamp


def test_a_folder_that_others_write_to_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "regard").mkdir()
    (tmp_path / "regard").chmod(0o777)
    with pytest.raises(build.NoLibraryError, match=f"{tmp_path / 'regard'}.*chmod 700"):
        build.library()


def test_where_it_cannot_be_compiled_torch_decodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho this compiler is ill >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", os.fspath(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(build.NoLibraryError, match="this compiler is ill"):
        build.library()
    engine = engine_of(build_model(a_translator()), 1)
    assert engine.about == "torch, float32"
    assert re.search("torch.*this compiler is ill", capsys.readouterr().err)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 3]


def changed(data: bytes) -> bytes:
    return data[:-9] + b"?" + data[-8:]


@pytest.mark.parametrize("damage", [cut, pytest.param(changed, marks=pytest.mark.full)])
def test_a_damaged_library_is_compiled_again(
    damage: Callable[[bytes], bytes], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(cache, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_NATIVE_FLAGS", "-O0")
    path = build._built()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert build._built() == path
    assert len(path.read_bytes()) == len(whole)
    build.library()


@pytest.mark.parametrize("place", ["/proc/1", "/dev/null"])
def test_a_cache_that_cannot_be_written_is_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    with pytest.raises(build.NoLibraryError, match=f"{place}.*XDG_CACHE_HOME"):
        build.library()


def test_a_read_only_cache_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", Mock(side_effect=OSError(30, "Read-only file system")))
    with pytest.raises(build.NoLibraryError, match="Read-only file system.*XDG_CACHE_HOME.*`engine` torch"):
        build.library()


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    with pytest.raises(build.NoLibraryError, match="home directory.*XDG_CACHE_HOME"):
        build.library()


def test_no_folder_of_the_cache_is_open_to_others_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "some" / "cache"))
    before = os.umask(0)
    try:
        folder = build._private()
    finally:
        os.umask(before)
    assert all(each.stat().st_mode & 0o077 == 0 for each in (folder, folder.parent, folder.parent.parent))


def test_a_library_of_other_structures_is_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.engine.native.CJob", CTensor)
    assert engine_of(build_model(a_translator()), threads=1).about.startswith("torch")
    assert "install Regard again, or use `engine` torch" in capsys.readouterr().err
