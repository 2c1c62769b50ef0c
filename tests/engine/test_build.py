from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engine.test_native import a_translator

from regard.engine import build
from regard.engine.engine import engine_of
from regard.models.build import build as build_model

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C++ compiler here")


@pytest.fixture(autouse=True)
def _anew() -> None:
    build.library.cache_clear()


def test_it_is_compiled_once_into_a_folder_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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
    with pytest.raises(build.NoLibraryError, match="others can write to it"):
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
    assert "torch decodes" in capsys.readouterr().err
