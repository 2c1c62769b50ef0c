"""Sequences of vectors: what is read of files, of JSON and of lines, what is refused, and what is kept with a model."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.data.config import DataConfig, ExamplesConfig, PairsConfig, TokenizerConfig, VectorsConfig
from regard.data.examples import LABELS, NUMBERS, read_examples
from regard.data.input import load_input, named
from regard.data.store import stored
from regard.data.text import pairs
from regard.data.vectors import Vectors
from regard.errors import UserError

ROWS = np.array([[0.0, 10.0], [2.0, 30.0], [4.0, 50.0]], np.float32)


def raw(item: str) -> NDArray[Any]:
    return Vectors(VectorsConfig(), (), ()).array(item)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "0,10\n2,30\n4,50\n"),
        ("a.csv", "\ufefftime,speed\n0,10\n\n2,30\n4,50"),
        ("a.tsv", "0\t10\r\n2\t30\r\n4\t50\r\n"),
        ("a.csv", "x;y\n0;10\n2;30\n4;50\n"),
        ("a.csv", "0 10\n2  30\n4 50\n"),
    ],
)
def test_tables_are_read_however_they_are_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert np.array_equal(raw(str(tmp_path / name)), ROWS)
    assert np.array_equal(raw(text) if "\n" in text.strip() else ROWS, ROWS), "and as the text itself"


def test_arrays_and_json_are_read(tmp_path: Path) -> None:
    for kind in (np.float64, np.float32, np.int16):
        np.save(tmp_path / "a.npy", np.asfortranarray(ROWS.astype(kind)))
        assert np.array_equal(raw(str(tmp_path / "a.npy")), ROWS)
    assert np.array_equal(raw(json.dumps(ROWS.tolist())), ROWS)
    assert raw("[1, 2, 3]").shape == (3, 1), "single numbers are one feature"
    np.savez(tmp_path / "one.npz", ROWS)
    assert np.array_equal(raw(str(tmp_path / "one.npz")), ROWS)
    np.savez_compressed(tmp_path / "a.npz", x=np.stack([ROWS, ROWS + 1]), lengths=[3, 2], y=["up", "down"])
    assert np.array_equal(raw(f"{tmp_path / 'a.npz'}#1"), ROWS[:2] + 1)
    items = [*Vectors.items(tmp_path / "a.npz")]
    assert [label for _, label in items] == ["up", "down"]
    assert [raw(item).shape for item, _ in items] == [(3, 2), (2, 2)]


@pytest.mark.parametrize(
    ("item", "names"),
    [
        ("[[1, 2], [3]]", ["rows"]),
        ("[[1, null]]", ["feature 2", "nan"]),
        ('["a"]', ["rows"]),
        ("[]", ["shape"]),
        ("[" * 100_000, ["rows"]),
        ("1,2\n3\n", ["line 2", "1 numbers, not 2"]),
        ("a,b\n1,2\n3,x\n", ["line 3", "'x'"]),
        ("a,b\nc,d\n", ["line 2", "'c'"]),
        ("1,2\n3,inf\n", ["step 2", "inf"]),
        ("nowhere.csv", ["nowhere.csv", "No such file"]),
        ("notes.txt", ["notes.txt", ".csv", ".npz"]),
        ("many.npz", ["2 recordings", "many.npz#0"]),
        ("many.npz#2", ["2 recordings", "many.npz#0"]),
        ("odd.npz", ["odd.npz", "lengths"]),
        ("bad.npz", ["bad.npz", "savez"]),
        ("objects.npy", ["objects.npy", "object"]),
        ("lies.npy", ["lies.npy", "100000000"]),
        ("text.npy", ["text.npy"]),
        ("/dev/zero", ["/dev/zero"]),
    ],
)
def test_what_is_no_recording_is_told(
    item: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("many.npz", x=np.zeros((2, 3, 1)))
    np.savez("odd.npz", x=np.zeros((2, 3, 1)), lengths=[3, 4])
    Path("bad.npz").write_bytes(Path("many.npz").read_bytes()[:-30])
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    np.save("text.npy", np.array(["a"]))
    np.save("lies.npy", np.zeros(3))
    data = Path("lies.npy").read_bytes()
    Path("lies.npy").write_bytes(data.replace(b"(3,), }        ", b"(100000000,), }"))
    with pytest.raises(UserError) as caught:
        raw(item)
    assert all(name in str(caught.value) for name in names), str(caught.value)


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("regard.data.vectors.LARGEST", 10_000)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\0" * 1_000_000)
    with pytest.raises(UserError, match=r"bomb\.npz.*10,000 bytes"):
        raw(str(tmp_path / "bomb.npz"))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    np.save(tmp_path / "evil.npy", np.array([Evil()], object), allow_pickle=True)
    (tmp_path / "also.npy").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.npy", "also.npy"):
        with pytest.raises(UserError, match=name):
            raw(str(tmp_path / name))
    assert not (tmp_path / "touched").exists()


def learned(stack: int = 1) -> Vectors:
    rows = [json.dumps((ROWS + shift).tolist()) for shift in (0, 6)]
    return Vectors.learned(VectorsConfig(stack=stack), [*rows, " "])


def test_features_are_standardised_by_what_is_trained_on() -> None:
    both = np.concatenate([ROWS, ROWS + 6])
    vectors = learned()
    assert np.allclose(vectors.mean, both.mean(0))
    assert np.allclose(vectors.deviation, both.std(0))
    (read,) = vectors.read([json.dumps(ROWS.tolist())])
    assert np.allclose(read, (ROWS - both.mean(0)) / both.std(0), atol=1e-6)
    assert vectors.front == VectorsConfig(features=2)
    constant = Vectors.learned(VectorsConfig(), ["[[1, 5], [2, 5]]"])
    assert np.isfinite(constant.read(["[[1, 9]]"])[0]).all()


def test_steps_can_be_joined() -> None:
    vectors = learned(stack=2)
    (read,) = vectors.read([json.dumps(ROWS.tolist())])
    (plain,) = learned().read([json.dumps(ROWS.tolist())])
    assert np.allclose(read, [[*plain[0], *plain[1]], [*plain[2], 0, 0]], atol=1e-6)
    assert vectors.front.features == 4
    assert vectors.axis(read).labels == ["0", "2"]


def test_what_is_kept_with_a_model_reads_the_same_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    learned(2).save(path)
    assert load_input(path) == learned(2)
    content = json.loads(path.read_text("utf-8"))
    for change in ({"kind": "os"}, {"mean": []}, {"deviation": [0, 0]}, {"sha256": "0"}, {"settings": {"stack": 0}}):
        path.write_text(json.dumps({**content, **change} if "sha256" in change else _unsummed(content, change)))
        with pytest.raises(UserError, match=r"input\.json"):
            load_input(path)


def _unsummed(content: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**content, **change}.items() if key != "sha256"}


def test_other_numbers_of_features_and_files_of_a_closed_input_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="3 features.* 2"):
        learned().read(["[[1, 2, 3]]"])
    with pytest.raises(UserError, match="3 features.* 2"):
        Vectors.learned(VectorsConfig(), ["[[1, 2]]", "[[1, 2, 3]]"])
    with pytest.raises(UserError, match="at least one"):
        Vectors.learned(VectorsConfig(), [])
    np.save(tmp_path / "a.npy", ROWS)
    assert len(learned().read([str(tmp_path / "a.npy")])) == 1
    with pytest.raises(UserError, match="send numbers"):
        learned().closed().read([str(tmp_path / "a.npy")])


def test_lists_name_files_beside_them(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    np.save(tmp_path / "there" / "a.npy", ROWS)
    here = str((tmp_path / "there" / "a.npy").resolve())
    listed = tmp_path / "list.txt"
    listed.write_text("there/a.npy\n[[1, 2]]\n", "utf-8")
    assert [item for item, _ in Vectors.items(listed)] == [here, "[[1, 2]]"]
    assert named([here, "[[1, 2]]", f"{here}#3", ""]) == [Path(here)]
    own = VectorsConfig()
    for name, text in (("p.tsv", "there/a.npy\tone\n"), ("p.jsonl", '{"source": "there/a.npy", "target": "one"}\n')):
        (tmp_path / name).write_text(text, "utf-8")
        assert [pair[:2] for pair in pairs(PairsConfig(pairs=str(tmp_path / name), input=own))] == [(here, "one")]
    (tmp_path / "labels.tsv").write_text("text\tlabel\nthere/a.npy\t2.5\n", "utf-8")
    for form, label in ((LABELS, "2.5"), (NUMBERS, 2.5)):
        (example,) = read_examples([ExamplesConfig(file=str(tmp_path / "labels.tsv"), input=own)], form)
        assert (example.texts, example.answer) == ((here,), label)


def test_a_file_of_many_is_a_source_and_a_set_of_examples(tmp_path: Path) -> None:
    path, own = tmp_path / "a.npz", VectorsConfig()
    np.savez(path, x=np.stack([ROWS, ROWS]), y=[1, 2])
    (tmp_path / "t").write_text("one\ntwo\n", "utf-8")
    both = [*pairs(PairsConfig(source=str(path), target=str(tmp_path / "t"), input=own))]
    assert [(pair.source, pair.target) for pair in both] == [(f"{path}#0", "one"), (f"{path}#1", "two")]
    examples = read_examples([ExamplesConfig(file=str(path), input=own)], NUMBERS)
    assert [each.answer for each in examples] == [1.0, 2.0]
    np.savez(path, x=np.stack([ROWS, ROWS]))
    with pytest.raises(UserError, match="item 1: .*label"):
        read_examples([ExamplesConfig(file=str(path), input=own)], LABELS)


def test_a_store_holds_vectors_beside_ids(tmp_path: Path) -> None:
    rows = [(ROWS, [3, 4]), (ROWS[:1], [5])]
    store = stored(tmp_path / "store", lambda: rows, vocabulary=9)
    assert [lengths.tolist() for lengths in store.lengths] == [[3, 1], [2, 1]]
    for i, (source, target) in enumerate(rows):
        assert np.array_equal(store.pair(i)[0], source)
        assert store.pair(i)[1].tolist() == target


def test_a_tokenizer_of_its_own_for_targets_is_not_needed_beside_an_input() -> None:
    with pytest.raises(UserError, match="target_tokenizer"):
        DataConfig(train=(PairsConfig(pairs="a.tsv"),), input=VectorsConfig(), target_tokenizer=TokenizerConfig())
