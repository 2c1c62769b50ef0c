import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data import store as module
from regard.data.store import Store, build
from regard.errors import UserError
from regard.files import write_manifest

ROWS = [([5, 6, 7], [8]), ([], [9, 10]), ([65535], []), ([4] * 9, [5] * 11)]


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65536, "uint16"), (65537, "uint32")])
@pytest.mark.parametrize("chunk", [1, 5, 1 << 18])
def test_what_goes_in_comes_out(
    tmp_path: Path, vocabulary: int, dtype: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    build(tmp_path / "s", iter(ROWS), vocabulary=vocabulary)
    store = Store.open(tmp_path / "s")
    assert len(store) == 4
    assert [tuple(side.tolist() for side in store.pair(i)) for i in range(4)] == ROWS
    assert [lengths.tolist() for lengths in store.lengths] == [[3, 0, 1, 9], [1, 2, 0, 11]]
    assert store.pair(0)[0].dtype == dtype
    with pytest.raises(ValueError, match="read-only"):
        store.pair(0)[0][0] = 1
    for i in (-1, 4):
        with pytest.raises(IndexError):
            store.pair(i)


def test_a_side_may_be_empty_throughout(tmp_path: Path) -> None:
    build(tmp_path / "s", [([], [1, 2])], vocabulary=9)
    assert [side.tolist() for side in Store.open(tmp_path / "s").pair(0)] == [[], [1, 2]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_an_interrupted_build_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    def rows() -> Iterator[tuple[list[int], list[int]]]:
        yield ROWS[0]
        raise error

    with pytest.raises(error):
        build(tmp_path / "s", rows(), vocabulary=99)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match=f"{tmp_path}/s.*store"):
        Store.open(tmp_path / "s")


def test_a_killed_build_is_not_opened_and_does_not_hinder_the_next(tmp_path: Path) -> None:
    aside = tmp_path / ".tmp-s"  # as a kill leaves it: no index
    aside.mkdir()
    (aside / "source.tokens").write_bytes(b"\0" * 99)
    for folder in (aside, tmp_path / "s"):
        with pytest.raises(UserError, match=r"MANIFEST\.json"):
            Store.open(folder)
    build(tmp_path / "s", ROWS, vocabulary=65536)
    assert len(Store.open(tmp_path / "s")) == 4
    assert not aside.exists()


@pytest.mark.parametrize("name", ["source.tokens", "target.tokens", "source.offsets", "target.offsets"])
def test_files_of_the_wrong_size_are_told(tmp_path: Path, name: str) -> None:
    build(tmp_path / "s", ROWS, vocabulary=65536)
    path = tmp_path / "s" / name
    data = path.read_bytes()
    for wrong in (data[:-1], data + b"\0\0", b""):
        path.write_bytes(wrong)
        with pytest.raises(UserError, match=rf"{tmp_path}/s.*{name}.* {len(wrong)} .* {len(data)}\b"):
            Store.open(tmp_path / "s")
    path.unlink()
    with pytest.raises(UserError, match=name):
        Store.open(tmp_path / "s")


def test_a_damaged_index_or_offsets_are_told(tmp_path: Path) -> None:
    build(tmp_path / "s", ROWS, vocabulary=65536)
    path = tmp_path / "s" / "index.json"
    good = json.loads(path.read_bytes())
    damaged = [[], {}, None, good | {"dtype": "object"}, good | {"dtype": "float16"}, good | {"rows": "x"}]
    for index in [*damaged, good | {"rows": 3}, good | {"rows": -1}, good | {"tokens": [13]}, good | {"version": 2}]:
        path.write_text(json.dumps(index))
        with pytest.raises(UserError, match=f"{tmp_path}/s.*store"):
            Store.open(tmp_path / "s")
    build(tmp_path / "t", ROWS, vocabulary=65536)
    shutil.rmtree(tmp_path / "s")
    (tmp_path / "t").rename(tmp_path / "s")
    for offsets in ([0, 5, 3, 4, 13], [1, 3, 3, 4, 13], [0, 3, 3, 4, 12]):
        np.array(offsets, "<i8").tofile(tmp_path / "s" / "source.offsets")
        with pytest.raises(UserError, match=rf"{tmp_path}/s.*source\.offsets"):
            Store.open(tmp_path / "s")
        write_manifest(tmp_path / "s")
        with pytest.raises(UserError, match=f"{tmp_path}/s.*offsets.*tokens"):
            Store.open(tmp_path / "s")


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/s.*pairs"):
        build(tmp_path / "s", [], vocabulary=9)
    for wrong in (9, -1):
        with pytest.raises(UserError, match=f"ids.* {wrong} .* 9 "):
            build(tmp_path / "s", [([wrong], [1])], vocabulary=9)
    assert list(tmp_path.iterdir()) == []
    build(tmp_path / "s", ROWS, vocabulary=65536)
    with pytest.raises(UserError, match=f"{tmp_path}/s: .*already"):
        build(tmp_path / "s", ROWS, vocabulary=65536)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"{tmp_path}/file/s.*Not a directory"):
        build(tmp_path / "file" / "s", ROWS, vocabulary=65536)
