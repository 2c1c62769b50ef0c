"""Corpora are read once for all that is decided by them, and once more to be stored."""

import gzip
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.training.toy import write_corpus

from regard import files
from regard.data import sample as samples
from regard.data.config import PairsConfig, RunningText, TextDataConfig, TokenizerConfig
from regard.data.sample import all_pairs, forget, sample
from regard.data.text import lines
from regard.errors import UserError
from regard.exchange import folders
from regard.files import input_digest, open_hashed
from regard.tasks.running_text import held_out, ids_for, tokenizer_for
from regard.training.asked import Asked
from regard.training.run import Run, _same_run


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a file was opened, by name."""
    counts, plain = Counter[str](), Path.open

    def count(self: Path, *how: Any, **more: Any) -> Any:
        counts[self.name] += 1
        return plain(self, *how, **more)

    class Counted(files._Hashed):
        def __init__(self, path: Path) -> None:
            counts[path.name] += 1
            super().__init__(path)

    monkeypatch.setattr(Path, "open", count)
    monkeypatch.setattr(files, "_Hashed", Counted)
    return counts


def corpus(folder: Path, count: int) -> PairsConfig:
    for side in ("a", "b"):
        (folder / side).write_text("".join(f"{side} {i} ä\n" for i in range(count)), "utf-8")
    return PairsConfig(source=str(folder / "a"), target=str(folder / "b"))


@pytest.mark.parametrize(("count", "every"), [(10, 1), (11, 2), (20, 2), (100, 16), (161, 32)])
def test_a_sample_is_even(count: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "SAMPLE", 10)
    total, some = sample([corpus(tmp_path, count)])
    assert total == count
    assert some == [(f"a {i} ä", f"b {i} ä") for i in range(0, count, every)]


def test_a_sample_is_kept_until_it_is_let_go_or_a_file_has_changed(tmp_path: Path, opened: Counter[str]) -> None:
    config = corpus(tmp_path, 5)
    before = opened.copy()
    first = sample([config])
    assert sample([config]) is first
    assert (opened - before)["a"] == 1
    forget()
    assert len(sample([config])[1]) == 5
    (tmp_path / "a").write_text("eins\nzwei\n")
    (tmp_path / "b").write_text("one\ntwo\n")
    assert sample([config]) == (2, [("eins", "one"), ("zwei", "two")])
    (tmp_path / "b").write_text("one\n")
    with pytest.raises(UserError, match="2 lines"):
        sample([config])


def test_a_large_corpus_has_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(samples, "MANY", 50)
    assert sum(1 for _ in all_pairs([corpus(tmp_path, 50)], "look")) == 50
    assert not capsys.readouterr().err
    sample([corpus(tmp_path, 60)])
    assert sum(1 for _ in all_pairs([corpus(tmp_path, 60)], "encode")) == 60
    assert re.fullmatch("read .*\nencode .*", capsys.readouterr().err.strip())


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_the_sum_of_a_file_that_was_read_is_known(name: str, tmp_path: Path, opened: Counter[str]) -> None:
    path = tmp_path / name
    data = "".join(f"{i}\n" for i in range(100_000)).encode()
    path.write_bytes(data if name == "text" else gzip.compress(data) + gzip.compress(b"more\n"))
    with open_hashed(path) as file:
        file.readline()
    assert opened[name] == 2, "written and read in part"
    assert sum(1 for _ in lines(path, strict=True)) == 100_000 + (name != "text")
    assert input_digest(path) == sha256(path.read_bytes()).hexdigest()
    assert opened[name] == 4, "the sum took no reading"
    path.write_bytes(data[:-2] + b"!\n")
    assert input_digest(path) == sha256(path.read_bytes()).hexdigest() == files.digest(path)


def test_pairs_are_read_twice_before_the_first_step(tmp_path: Path, opened: Counter[str]) -> None:
    write_corpus(tmp_path, 600)
    asked = Asked(source=tmp_path / "train.src", target=tmp_path / "train.tgt", minutes=1.0)
    before = opened.copy()
    run = Run(asked.recipe()[0], tmp_path / "run", folders)
    run.out.mkdir()
    for goes_on in (False, True):  # what is there need not be read
        _same_run(run.out, run.recipe, run.inputs(), goes_on)
        again = Run(run.recipe, run.out, folders)
        assert again.task.held is not None  # type: ignore[attr-defined]
        assert {name: (opened - before)[name] for name in ("train.src", "train.tgt")} == {
            "train.src": 2,
            "train.tgt": 2,
        }
    whole = [(run.out / name).read_bytes() for name in ("valid.source", "valid.target", "valid.json")]
    (run.out / "valid.target").write_bytes(b"")
    assert Run(run.recipe, run.out, folders).task.held is not None  # type: ignore[attr-defined]
    assert whole == [(run.out / name).read_bytes() for name in ("valid.source", "valid.target", "valid.json")]


def test_running_text_is_read_once_for_words_ids_and_what_is_held_out(tmp_path: Path, opened: Counter[str]) -> None:
    path = tmp_path / "text"
    path.write_text("a rose is a rose is a rose\n" * 50, "utf-8")
    config = TextDataConfig(
        train=(RunningText(file=str(path)),), hold_out=0.1, context=8, tokenizer=TokenizerConfig(kind="words")
    )
    before = opened["text"]
    tokenizer = tokenizer_for(config, tmp_path)
    ids, held = ids_for(config, tokenizer, tmp_path), held_out(config, tokenizer)
    assert held is not None
    assert held.characters == 135
    assert len(ids) + len(held.ids) == 50 * 9 + 2  # with an end mark before and after what is held out
    assert opened["text"] == before + 1
