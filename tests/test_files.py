import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.files import MANIFEST, MARK, append, broken, check_space, digest, read_regular, write, write_folder

CONTENTS: dict[str, Callable[[Path], None] | bytes] = {
    "a.bin": b"weights",
    "b.txt": lambda path: path.write_text("text") and None,
}


def fail_at(patch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Let the given call of an os function raise, counted from 0."""
    calls, real = iter(range(1000)), getattr(os, name)

    def failing(*given: Any) -> Any:
        if next(calls) == call:
            raise OSError(5, "the plug was pulled")
        return real(*given)

    patch.setattr(os, name, failing)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write(path, b"old, and longer than the new")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == {"plan.json"}


@pytest.mark.parametrize(("name", "call", "left"), [("fsync", 0, b"old"), ("replace", 0, b"old"), ("fsync", 1, b"new")])
def test_an_interrupted_write_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int, left: bytes
) -> None:
    path = tmp_path / "plan.json"
    write(path, b"old")
    fail_at(monkeypatch, name, call)
    with pytest.raises(UserError, match=f"{path}.*the plug was pulled"):
        write(path, b"new")
    assert path.read_bytes() == left
    assert names(tmp_path) == {"plan.json"}


def test_appending_adds(tmp_path: Path) -> None:
    append(tmp_path / "log", b"one\n")
    append(tmp_path / "log", b"two\n")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_a_folder_verifies_after_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "step-1"
    write_folder(folder, CONTENTS)
    assert broken(folder) is None
    assert names(folder) == {"a.bin", "b.txt", MANIFEST}
    assert names(folder.parent) == {"step-1"}
    sums = json.loads((folder / MANIFEST).read_bytes())
    assert sums["a.bin"] == {"bytes": 7, "sha256": digest(folder / "a.bin")}


def test_a_finished_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    write_folder(folder, CONTENTS)
    with pytest.raises(UserError, match=f"{folder}.*Directory not empty"):
        write_folder(folder, {"a.bin": b"other"})
    assert broken(folder) is None
    assert (folder / "a.bin").read_bytes() == b"weights"
    assert names(tmp_path) == {"step-1"}


# In order: a.bin, b.txt, the manifest, the folder, then the folder above it, when the new one is already in place.
@pytest.mark.parametrize(("name", "call"), [("fsync", call) for call in range(5)] + [("rename", 0)])
def test_an_interrupted_folder_is_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    write_folder(tmp_path / "step-1", CONTENTS)
    with monkeypatch.context() as patch:
        fail_at(patch, name, call)
        with pytest.raises(UserError, match="step-2.*the plug was pulled"):
            write_folder(tmp_path / "step-2", CONTENTS)
    assert broken(tmp_path / "step-1") is None
    finished = (name, call) == ("fsync", 4)
    assert names(tmp_path) == ({"step-1", "step-2"} if finished else {"step-1"})
    assert not finished or broken(tmp_path / "step-2") is None


@pytest.mark.parametrize("error", [UserError("no"), KeyboardInterrupt(), RuntimeError("no")])
def test_a_content_that_fails_leaves_nothing_behind(tmp_path: Path, error: BaseException) -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    with pytest.raises(type(error)):
        write_folder(tmp_path / "step-1", {"a.bin": fails})
    assert names(tmp_path) == set()


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    aside = tmp_path / f"{MARK}step-1"
    aside.mkdir()
    (aside / "stale").write_bytes(b"x")
    write_folder(tmp_path / "step-1", CONTENTS)
    assert names(tmp_path) == {"step-1"}
    assert not (tmp_path / "step-1" / "stale").exists()


def test_every_flipped_byte_and_every_cut_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    write_folder(folder, CONTENTS)
    for name in ("a.bin", "b.txt"):
        whole = (folder / name).read_bytes()
        for i in range(len(whole)):
            (folder / name).write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
            assert name in str(broken(folder))
            (folder / name).write_bytes(whole[:i])
            assert re.search(rf"{name}.* {i} .* {len(whole)}\b", str(broken(folder)))
        (folder / name).write_bytes(whole)
    manifest = (folder / MANIFEST).read_bytes()
    for i in range(len(manifest)):
        (folder / MANIFEST).write_bytes(manifest[:i])
        assert broken(folder) is not None
    (folder / MANIFEST).write_bytes(manifest)
    assert broken(folder) is None


def test_a_missing_file_or_manifest_is_seen(tmp_path: Path) -> None:
    write_folder(tmp_path / "step-1", CONTENTS)
    (tmp_path / "step-1" / "b.txt").unlink()
    assert "b.txt" in str(broken(tmp_path / "step-1"))
    (tmp_path / "step-1" / MANIFEST).unlink()
    assert MANIFEST in str(broken(tmp_path / "step-1"))
    assert broken(tmp_path / "none") is not None


@pytest.mark.parametrize("name", ["../x", "/etc/hostname", "sub/x", "..", ".", ""])
def test_a_manifest_cannot_reach_outside_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_bytes(b"x")
    folder = tmp_path / "step-1"
    folder.mkdir()
    wanted = {"bytes": 1, "sha256": digest(tmp_path / "x")}
    (folder / MANIFEST).write_text(json.dumps({name: wanted}))
    assert broken(folder) is not None
    if len(name) > 2:
        assert re.search(f"{MANIFEST}.*{name!r}", str(broken(folder)))


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{", '{"a": 3}', '{"a": null}', '{"a": {}}', '{"a\\u0000": {}}', "[" * 200_000, "\x80"]
)
def test_a_senseless_manifest_is_a_reason_not_a_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text, "latin-1")
    (tmp_path / "a").write_bytes(b"x")
    assert broken(tmp_path) is not None


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "log"
    for act in (lambda: write(path, b"x"), lambda: append(path, b"x")):
        with pytest.raises(UserError, match=f"{path}.*No such file or directory"):
            act()


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    path = tmp_path / "file" / "log"
    for act in (lambda: write(path, b"x"), lambda: append(path, b"x"), lambda: write_folder(path, CONTENTS)):
        with pytest.raises(UserError, match=f"{path}.*Not a directory"):
            act()
    assert names(tmp_path) == {"file"}


def test_a_read_only_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By refusing as such a folder does, since tests may run as root, who may write anywhere."""

    def refuses(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    for name in ("open", "mkdir", "unlink"):
        monkeypatch.setattr(Path, name, refuses)
    path = tmp_path / "log"
    for act in (lambda: write(path, b"x"), lambda: append(path, b"x"), lambda: write_folder(path, CONTENTS)):
        with pytest.raises(UserError, match=f"{path}.*Permission denied"):
            act()


def test_room_on_the_disk_is_checked(tmp_path: Path) -> None:
    check_space(tmp_path, 1)
    with pytest.raises(UserError, match=rf"{tmp_path}.*1000000000000\.0 MB.*\d MB"):
        check_space(tmp_path, 10**18)
    with pytest.raises(UserError, match="none.*No such file or directory"):
        check_space(tmp_path / "none", 1)


def test_only_regular_files_within_the_limit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    os.truncate(path, 6 << 30)  # sparse
    with pytest.raises(UserError, match=r"config\.json.*6,442,450,944 .* 5 "):
        read_regular(path, 5)
    os.mkfifo(tmp_path / "pipe")  # nobody writes there
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "zeros", "."):
        with pytest.raises(UserError, match=f"{tmp_path / name}.*regular file"):
            read_regular(tmp_path / name, 5)
    for name, why in (("loop", "symbolic links"), ("missing", "No such file"), ("a\0b", "embedded null")):
        with pytest.raises(UserError, match=f"{tmp_path}.*{why}"):
            read_regular(tmp_path / name, 5)
