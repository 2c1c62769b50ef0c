"""Readers as their users meet them: run, evaluated, looked at, exported; and what is told of mistakes."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import json
import re
from pathlib import Path

import pytest

import regard as package
from regard.errors import UserError
from tests.cli.reading import METRICS, TRUNKS, base, data_for, recipe, regard, sentences, words_at

TASKS = tuple(METRICS)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


_MADE: dict[tuple[Path, str, str], Path] = {}


def reader(home: Path, task: str, trunk: str = "bert") -> Path:
    """A trained one; each is made once."""
    key = home, task, trunk
    if key not in _MADE:
        folder = home / f"{task}-{trunk}"
        folder.mkdir()
        path = recipe(folder, task, {"trunk": TRUNKS[trunk]})
        _, told = regard("train", path, "--out", folder / "run", "--threads", 1)
        assert "best" in told
        _MADE[key] = folder / "run"
    return _MADE[key]


LINES: dict[str, list[str]] = {
    "classification": ["one up 六", "", "Ünïcödé 👩‍👧 down", "  ", "six"],
    "regression": ["one up\t六 two", "", "👩‍👧\t", "\t\t ", "a\tb"],
    "choice": ["one\ttwo\tthree four", "", "up\tdown\tup\tФ", " ", "a\tb\tc"],
    "tagging": [" one  六 two", "", "👩‍👧 </s> Ünïcödé", "\t", "six"],
    "spans": ["one so is 六 two\twhat so?", "", "Ünïcödé so is 👩‍👧\t?", "", "seven\tseven"],
}


@pytest.mark.parametrize("task", TASKS)
def test_every_question_is_answered_line_by_line(task: str, home: Path) -> None:
    model, lines = reader(home, task), LINES[task]
    given = ("\n".join(lines) + "\n").encode()
    plain, structured = regard("run", model, stdin=given)[0], regard("run", model, "--json", stdin=given)[0]
    said, told = plain.split("\n"), [json.loads(line) for line in structured.splitlines()]
    assert said.pop() == ""
    assert len(said) == len(told) == len(lines)
    assert [each["input"] for each in told] == lines
    for line, out, each in zip(lines, said, told, strict=True):
        if not line.strip():
            assert (out, each) == ("", {"input": line})
            continue
        if task == "classification":
            assert out == f"{each['answer']}\t{each['probability']:.4f}"
            assert {label["label"] for label in each["all"]} == {"good", "bad"}
        elif task == "regression":
            assert out == f"{each['answer']:.4f}"
        elif task == "choice":
            choices = line.split("\t")[1:]
            assert out == f"{each['answer']}\t{each['probability']:.4f}"
            assert each["all"][0]["label"] == choices[each["answer"] - 1]
        elif task == "tagging":
            assert out.split() == each["answer"]
            assert len(each["answer"]) == len(line.split())
        else:
            document = line.split("\t")[0]
            words, place, _ = out.split("\t")
            assert document[each["start"] : each["end"]] == each["answer"]
            assert (words, place) == (each["answer"], f"{each['start']}-{each['end']}")
    assert regard("run", model, "--batch-size", 1, stdin=given)[0] == plain
    loaded = package.load(model)
    alone, among = loaded(lines[0]), loaded([lines[2], lines[0]])[1]
    wanted = {"tagging": lambda a: tuple(a), "choice": lambda a: a - 1}.get(task, lambda a: a)(told[0]["answer"])
    near = (lambda x: pytest.approx(x)) if task == "regression" else (lambda x: x)
    assert alone.said == near(among.said)
    assert alone.said == near(wanted)


@pytest.mark.parametrize("task", TASKS)
def test_every_question_is_judged_and_looked_at(task: str, home: Path, tmp_path: Path) -> None:
    model = reader(home, task)
    data = data_for(task, tmp_path)
    found = json.loads(regard("evaluate", model, "--data", data, "--json", "--output", tmp_path / "said.txt")[0])
    assert found.keys() == METRICS[task] | {"examples"}
    assert found["examples"] == len((tmp_path / "said.txt").read_text("utf-8").splitlines()) == 60
    assert "60 examples" in regard("evaluate", model, "--data", data)[0]
    kept = json.loads((model / "config.json").read_text("utf-8"))
    assert (kept["task"], kept["model"]["kind"]) == (task, "reader")
    assert METRICS[task] <= kept["metrics"].keys()
    regard("attend", model, LINES[task][0], "-o", tmp_path / "fig.json")
    drawn = json.loads((tmp_path / "fig.json").read_text("utf-8"))
    (weights,) = drawn["attention"].values()
    assert len(weights) == 2
    assert {len(row) for head in weights for row in head} == {len(weights[0])}
    assert all(abs(sum(row) - 1) < 1e-5 for head in weights for row in head)
    assert regard("attend", model, LINES[task][0])[0]
    with pytest.raises(UserError, match="blank"):
        regard("attend", model, " ")
    assert re.search(f"reader .*{task}", (model / "README.md").read_text("utf-8"))


@pytest.mark.parametrize("task", TASKS)
def test_every_question_goes_out_to_transformers(task: str, home: Path, tmp_path: Path) -> None:
    _, told = regard("export", reader(home, task), tmp_path / "out", "--to", "huggingface")
    assert re.search(r" 8 texts .*\de[-+]\d", told)
    for kind in ("onnx", "native"):
        with pytest.raises(UserError, match="reader"):
            regard("export", reader(home, task), tmp_path / kind, "--to", kind)


@pytest.mark.parametrize("trunk", ["gpt", "recurrent_text", "elmo"])
def test_decoders_and_elmo_read_too(trunk: str, home: Path, tmp_path: Path) -> None:
    model = reader(home, "classification", trunk)
    out, _ = regard("run", model, "--nbest", 2, stdin="one up 六\n\nÜnïcödé\n".encode())
    first, blank, last, end = out.split("\n")
    assert (blank, end) == ("", "")
    for line in (first, last):
        names, chances = line.split("\t")[::2], [float(p) for p in line.split("\t")[1::2]]
        assert sorted(names) == ["bad", "good"]
        assert sum(chances) == pytest.approx(1, abs=1e-4)
        assert chances == sorted(chances, reverse=True)
    found = json.loads(regard("evaluate", model, "--data", sentences(tmp_path), "--json")[0])
    assert found["examples"] == 60
    if trunk == "gpt":
        regard("attend", model, "one up 六", "-o", tmp_path / "fig.svg", "--pieces")
        drawn = (tmp_path / "fig.svg").read_text("utf-8")
        assert "[start]" in drawn
        assert "[extract]" in drawn
        assert regard("attend", model, "one up")[0]
    elif trunk == "elmo":
        assert regard("attend", model, "one up")[0]
    else:
        with pytest.raises(UserError, match="attention"):
            regard("attend", model, "one up")
    with pytest.raises(UserError, match=f"{trunk} .*BERT"):
        regard("export", model, tmp_path / "out", "--to", "huggingface")


def test_choices_of_any_length_are_looked_at(home: Path) -> None:
    look = package.load(reader(home, "choice")).attend("one\ttwo\tthree four Fünf seven three four five six")
    assert look.told.maps["encoder.0.self"].shape[-1] == len(look.told.source)


def test_lines_of_the_wrong_parts_are_named(home: Path) -> None:
    for task, line, told in [
        ("classification", "a\tb", r"line 3 .*\b2 .*\btext\b"),
        ("regression", "a", r"line 3 .*\b1 .*\btexts\b"),
        ("choice", "a\tb", r"line 3 .*\b2 .*choices"),
        ("spans", "a\tb\tc", r"line 3 .*\b3 .*question"),
    ]:
        with pytest.raises(UserError, match=told):
            regard("run", reader(home, task), stdin=f"{LINES[task][0]}\n\n{line}\n".encode())
    with pytest.raises(Exception, match="--vectors"):
        regard("run", reader(home, "choice"), "--vectors", stdin=b"a\n")
    with pytest.raises(Exception, match="--text"):
        regard("evaluate", reader(home, "choice"), "--text", "x.txt")
    with pytest.raises(UserError, match="data"):
        regard("evaluate", reader(home, "choice"))


def test_long_lines_are_told_of_and_long_documents_are_read(home: Path) -> None:
    long = " ".join(words_at(3, 400))
    _, told = regard("run", reader(home, "classification"), stdin=f"{long}\nup\n".encode())
    assert re.search(r"\b1 .* 30 tokens", told)
    out, told = regard("run", reader(home, "spans"), "--json", stdin=f"{long}\tso?\n".encode())
    assert "30 tokens" not in told
    assert json.loads(out)["answer"] in long
    out, told = regard("run", reader(home, "tagging"), stdin=f"{long}\n".encode())
    assert len(out.split()) == 400
    assert "30 tokens" not in told


def test_labels_of_any_spelling_make_one_line(tmp_path: Path) -> None:
    made = [{"text": f"{'up' if i % 2 else 'down'} {i}", "label": f"a\nb {i % 2}"} for i in range(30)]
    path = recipe(tmp_path, "classification", {"trunk": TRUNKS["bert"]}, steps=1)
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(each) + "\n" for each in made))
    regard("train", path, "--set", f"data.train=[{{file: {tmp_path}/odd.jsonl}}]", "--out", tmp_path / "run")
    out, _ = regard("run", tmp_path / "run", stdin=b"up\ndown\n")
    assert [line.split("\t")[0][:-1] for line in out.splitlines()] == ["a b ", "a b "]


def test_mistakes_are_told_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    path = recipe(tmp_path, "classification", {"trunk": TRUNKS["bert"]})
    (tmp_path / "one.tsv").write_text("a\tyes\nb\tyes\nc\tyes\n")
    (tmp_path / "s.json").write_text("{}")
    translator = base(tmp_path, "transformer")
    for settings, told in [
        ([f"data.train=[{{file: {tmp_path}/one.tsv}}]", "data.hold_out=0"], r"\b1 .*labels.*\b2 .*\b1000\b"),
        (["model.init_from=nowhere/at-all"], "nowhere/at-all"),
        ([f"model.init_from={translator}"], "transformer .*pairs"),
        (["data.max_length=41"], "data.max_length 41 .* 40 "),
        ([f"data.train=[{{file: {tmp_path}/s.json}}]"], r"s\.json.*labels .*\.jsonl"),
        (["data.train=[{corpus: glue/MNLI/train}]"], "glue .*REGARD_DATA"),
        (["data.train=[{corpus: glue/MNLI/trian}]"], "'glue/MNLI/trian'.*glue/MNLI/train"),
        (["train.metric=bleu"], "'bleu' .*classification.*accuracy"),
        (["train.lm_loss_weight=0.5"], r"train\.lm_loss_weight .*\b0\b"),
        (["train.frozen_layers=2"], r"train\.frozen_layers 2 .*\b1\b"),
        (["model.symmetric=true"], r"model\.symmetric .*pairs"),
        (["model.architecture_only=true"], "architecture_only .*init_from"),
        (["data.max_length=4"], r"max_length 4 .*\b5\b"),
    ]:
        with pytest.raises(UserError, match=told):
            regard("train", path, "--out", tmp_path / "x", *(part for each in settings for part in ("--set", each)))
    other = recipe(tmp_path, "tagging", {"trunk": TRUNKS["recurrent_text"]}, lora_rank=2)
    with pytest.raises(UserError, match=r"train\.lora_rank .*frozen"):
        regard("train", other, "--out", tmp_path / "z")
    (tmp_path / "new.txt").write_text("zor\n")
    with pytest.raises(UserError, match="`new_words` .*`start`"):
        regard("train", path, "--new-words", tmp_path / "new.txt", "--out", tmp_path / "y")
    assert not (tmp_path / "x/model.safetensors").exists()
