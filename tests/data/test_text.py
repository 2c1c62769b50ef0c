import gzip
import json
import re
from pathlib import Path

import pytest

from regard.data import text
from regard.data.config import DataConfig, PairsConfig, TokenizerConfig
from regard.data.text import Pair, lines, located, pairs
from regard.errors import UserError

DATA = Path(__file__).parents[3] / "shared" / "data"


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def refusal(path: Path, *, strict: bool = True) -> str:
    with pytest.raises(UserError) as caught:
        list(lines(path, strict=strict))
    assert str(path) in str(caught.value)
    return str(caught.value)


def refused_pairs(config: PairsConfig) -> str:
    with pytest.raises(UserError) as caught:
        list(pairs(config))
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_line_ends_at_a_newline_only(tmp_path: Path, name: str, strict: bool) -> None:
    data = "\ufeffa\r\nb\u2028c\x0bd\re\r\r\n\n\ufefflast".encode()
    expected = ["a", "b\u2028c\x0bd\re\r", "", "\ufefflast"]
    assert list(lines(put(tmp_path / name, data), strict=strict)) == expected


def test_a_newline_at_the_end_adds_no_line(tmp_path: Path) -> None:
    assert list(lines(put(tmp_path / "a", b"x\n"), strict=True)) == ["x"]
    assert list(lines(put(tmp_path / "b", b"x\n\n"), strict=True)) == ["x", ""]
    assert list(lines(put(tmp_path / "c", b"\xef\xbb\xbf"), strict=True)) == [""]
    assert list(lines(put(tmp_path / "d", b""), strict=True)) == []


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_undecodable_bytes_are_named_by_line_and_byte_or_replaced(tmp_path: Path, mark: bytes) -> None:
    path = put(tmp_path / "latin", mark + b"good\ncaf\xe9 x\n")
    message = refusal(path)
    assert "line 2" in message
    assert f"byte {len(mark) + 8} " in message
    assert "0xe9" in message
    assert "iconv" in message
    assert list(lines(path, strict=False)) == ["good", "caf\ufffd x"]


def test_binary_files_are_refused_when_strict_and_pass_otherwise(tmp_path: Path) -> None:
    path = put(tmp_path / "utf16", "one\ntwo\n".encode("utf-16"))
    message = refusal(path)
    assert "line 1" in message
    assert "NUL" in message
    assert "UTF-16" in message
    assert len(list(lines(path, strict=False))) == 3


@pytest.mark.parametrize("name", ["long.txt", "long.txt.gz"])
def test_a_huge_line_is_refused_without_being_held(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LONGEST", 10)
    path = put(tmp_path / name, b"0123456789\nshort\n" + b"x" * 11 + b"\nz\n")
    message = refusal(path)
    assert re.search("line 3.* 10 ", message)
    assert list(lines(path, strict=False)) == ["0123456789", "short", "x" * 11, "z"]


def test_a_line_without_an_end_costs_a_megabyte_at_most() -> None:
    with pytest.raises(UserError, match="/dev/zero, line 1.*NUL"):
        list(lines(Path("/dev/zero"), strict=True))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none")
    assert "No such file" in refusal(tmp_path / "none.gz")
    assert "directory" in refusal(tmp_path)
    assert "null" in refusal(tmp_path / "a\0b")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("harm", ["cut", "plain", "flipped"])
def test_damaged_gzip_is_an_error(tmp_path: Path, harm: str, strict: bool) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(1000)))
    flipped = whole[:200] + bytes(255 - b for b in whole[200:220]) + whole[220:]
    path = tmp_path / "a.gz"
    path.write_bytes({"cut": whole[:-20], "plain": b"no gzip\n", "flipped": flipped}[harm])
    message = refusal(path, strict=strict)
    assert re.search(f"{path}.*gzip", message)


def test_pairs_come_from_two_files_or_from_one(tmp_path: Path) -> None:
    source, target = put(tmp_path / "a.en.gz", b"a cat\n\na dog"), put(tmp_path / "a.de", b"eine Katze\r\nx\n\n")
    expected = [Pair("a cat", "eine Katze", "de", 1), Pair("", "x", "de", 2), Pair("a dog", "", "de", 3)]
    assert list(pairs(PairsConfig(source=str(source), target=str(target), tag="de"))) == expected
    tsv = put(tmp_path / "a.tsv.gz", b"a cat\teine Katze\n\tx\na dog\t\n")
    assert list(pairs(PairsConfig(pairs=str(tsv), tag="de"))) == expected
    rows = [json.dumps({"source": p.source, "target": p.target, "extra": 1}) for p in expected]
    jsonl = put(tmp_path / "a.jsonl", "\n".join(rows).encode())
    assert list(pairs(PairsConfig(pairs=str(jsonl), tag="de"))) == expected


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (2, 0)])
def test_unequal_files_are_told_with_both_counts(tmp_path: Path, left: int, right: int) -> None:
    source, target = put(tmp_path / "s", b"x\n" * left), put(tmp_path / "t", b"y\n" * right)
    message = refused_pairs(PairsConfig(source=str(source), target=str(target)))
    assert re.search(rf"{source}.* {left} .*{target}.* {right}\b", message)


def test_rows_that_are_no_pairs_are_told_by_line(tmp_path: Path) -> None:
    for row, why in [(b"alone", "columns.* 1.* 2"), (b"a\tb\tc", "columns.* 3.* 2")]:
        path = put(tmp_path / "a.tsv", b"a\tb\n" + row)
        message = refused_pairs(PairsConfig(pairs=str(path)))
        assert re.search(f"{path}, line 2.*{why}.*tab", message)
    good = b'{"source": "a", "target": "b"}\n'
    bad = [b"{", b"", b"[1]", b"7", b'{"source": "a"}', b'{"source": 1, "target": 2}', b'{"source": "a", "target": []}']
    for row in [*bad, rb'{"source": "\ud800", "target": "b"}', b"[" * 100_000]:
        path = put(tmp_path / "a.jsonl", good + row + b"\n")
        message = refused_pairs(PairsConfig(pairs=str(path)))
        assert f"{path}, line 2" in message
        assert '"source": "a cat"' in message


@pytest.mark.parametrize("config", [{"source": "a", "target": "a"}, {"pairs": "a.tsv"}, {"pairs": "a.jsonl"}])
def test_an_empty_file_is_an_error(tmp_path: Path, config: dict[str, str]) -> None:
    for name in config.values():
        put(tmp_path / name, b"")
    message = refused_pairs(PairsConfig(**{key: str(tmp_path / name) for key, name in config.items()}))
    assert re.search(f"{tmp_path / next(iter(config.values()))}.*empty", message)


def test_named_corpora_are_found_below_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(UserError, match="export REGARD_DATA="):
        located(PairsConfig(corpus="multi30k/en-de/train"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(UserError, match="'mutli30k'(.*multi30k){3}"):
        located(PairsConfig(corpus="mutli30k/en-de/train"))
    with pytest.raises(UserError, match="'dev'.*train, valid, test"):
        located(PairsConfig(corpus="multi30k/en-de/dev"))
    (tmp_path / "multi30k" / "tok").mkdir(parents=True)
    put(tmp_path / "multi30k" / "tok" / "val.lc.norm.tok.en", b"x")
    with pytest.raises(UserError, match=r"val\.lc\.norm\.tok\.de.*REGARD_DATA"):
        located(PairsConfig(corpus="multi30k-tok/en-de/valid"))
    path = put(tmp_path / "multi30k" / "tok" / "val.lc.norm.tok.de", b"y")
    assert located(PairsConfig(corpus="multi30k-tok/en-de/valid")).target == str(path)


@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason=f"no multi30k in {DATA}")
@pytest.mark.parametrize(("split", "count"), [("train", 29_000), ("valid", 1014), ("test", 1000)])
def test_multi30k_has_its_known_size(split: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(DATA))
    for name in ("multi30k", "multi30k-tok"):
        assert sum(1 for _ in pairs(PairsConfig(corpus=f"{name}/en-de/{split}"))) == count


def test_settings_that_cannot_work_are_refused() -> None:
    for ways in ({}, {"source": "a"}, {"target": "a"}, {"source": "a", "target": "b", "pairs": "c.tsv"}):
        with pytest.raises(UserError, match="source.*target.*pairs.*corpus"):
            PairsConfig(**ways)
    with pytest.raises(UserError, match=r"a\.csv.*\.tsv"):
        PairsConfig(pairs="a.csv")
    with pytest.raises(UserError, match="tag 'd e'"):
        PairsConfig(pairs="a.tsv", tag="d e")
    with pytest.raises(UserError, match="vocabulary.* 299 .* 300 "):
        TokenizerConfig(vocabulary=299)
    with pytest.raises(UserError, match="words.* 4 .* 5 "):
        TokenizerConfig(kind="words", vocabulary=4)
    with pytest.raises(UserError, match="train .*data"):
        DataConfig(train=())
    with pytest.raises(UserError, match="max_length 0"):
        DataConfig(train=(PairsConfig(pairs="a.tsv"),), max_length=0)
