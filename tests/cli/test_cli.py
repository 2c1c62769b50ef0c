"""The program as its users meet it: lines in and out, scores, and what it says of mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.toy import regard, write_corpus, write_recipe


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    out = folder / "run"
    regard("train", write_recipe(folder, steps=60), "--out", out)
    return out


def test_help_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['regard', '--help']; "
    code += "from regard.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"Train a model" in done.stdout


def test_as_many_lines_come_out_as_go_in_whatever_they_hold(model: Path) -> None:
    lines = [
        b"rot blau",
        b"",
        b"  \t ",
        b"\xff\xfe kaputt",
        b"\x00",
        "日本 🙂".encode(),
        b"rot\x0bblau\x0cgelb",
        b"a\r",
        b"</s> <unk>",
    ]
    lines += [b"rot " * 3000, "\u2028".encode() + b"rot"]
    done = regard("run", model, stdin=b"\n".join(lines) + b"\n")
    out = done.stdout.split(b"\n")
    assert out.pop() == b""
    assert len(out) == len(lines)
    assert out[1] == out[2] == b""
    assert b"line 4 is not UTF-8" in done.stderr
    assert b"line 10 is longer than 256 tokens; it was translated in 16 parts" in done.stderr
    assert regard("run", model, stdin=b"").stdout == b""
    assert regard("run", model, stdin=b"rot blau").stdout.split(b"\n")[0] == out[0]


def test_json_tells_text_scores_and_n_best(model: Path) -> None:
    done = regard("run", model, "--json", "--nbest", 2, "--beam", 4, stdin=b"rot blau\n\n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["input"] == "rot blau"
    scores = [output["score"] for output in first["outputs"]]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    assert second["outputs"] == []


def test_batch_size_changes_no_text(model: Path) -> None:
    text = (model.parent / "valid.src").read_bytes()
    outputs = {regard("run", model, "--batch-size", n, stdin=text).stdout for n in (1, 7, 64)}
    assert len(outputs) == 1


def test_scores_carry_their_signatures(model: Path) -> None:
    folder = model.parent
    arguments = ("evaluate", model, "--source", folder / "valid.src", "--target", folder / "valid.tgt")
    done = regard(*arguments, "--json", "--output", folder / "out.txt")
    said = json.loads(done.stdout)
    assert said["sentences"] == 20
    assert "tok:13a" in said["bleu"]["signature"]
    assert len((folder / "out.txt").read_text("utf-8").splitlines()) == 20
    assert "tok:none" in regard(*arguments, "--tokenized").stdout.decode()


def test_attention_is_shown_in_the_terminal_as_svg_and_as_json(model: Path, tmp_path: Path) -> None:
    said = regard("attend", model, "rot blau grün").stdout.decode()
    assert "blau" in said or "b" in said.splitlines()[0]
    regard("attend", model, "rot blau", "-o", tmp_path / "fig.svg")
    assert (tmp_path / "fig.svg").read_text("utf-8").startswith("<svg")
    regard("attend", model, "rot blau", "--target", "blau rot", "-o", tmp_path / "fig.json")
    data = json.loads((tmp_path / "fig.json").read_text("utf-8"))
    assert data["source"] == ["rot", "blau", "</s>"]
    assert data["target"] == ["blau", "rot", "</s>"]
    assert set(data["attention"]) == {"encoder.0.self", "decoder.0.self", "decoder.0.cross"}
    for row in data["attention"]["decoder.0.cross"][0]:
        assert abs(sum(row) - 1) < 1e-5
    for arguments, told in (
        (["", "-o", tmp_path / "x.svg"], "blank"),
        (["rot", "-o", tmp_path / "x.bmp"], "use .svg or .json"),
        (["rot", "--site", "nowhere"], "choose encoder.0.self"),
        (["rot", "--head", 7], "heads 0 to 1"),
    ):
        assert told in regard("attend", model, *arguments, code=2).stderr.decode()


def test_python_mirrors_the_command_line(model: Path, tmp_path: Path) -> None:
    import regard as package

    loaded = package.load(model)
    assert loaded("rot blau") == regard("run", model, stdin=b"rot blau\n").stdout.decode().strip("\n")
    assert loaded(["", "rot"])[0] == ""
    look = loaded.attend("rot blau")
    look.save(tmp_path / "fig.svg")
    assert look._repr_svg_() == (tmp_path / "fig.svg").read_text("utf-8")


def test_a_folder_has_all_that_a_model_needs(model: Path) -> None:
    names = {path.name for path in model.iterdir()}
    assert {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "recipe.yaml",
        "plan.json",
        "metrics.jsonl",
        "README.md",
    } <= names
    described = json.loads((model / "config.json").read_text("utf-8"))
    assert (described["format"], described["version"], described["task"]) == ("regard", 1, "translation")
    assert "training FLOPs" in (model / "README.md").read_text("utf-8")


def test_training_on_bad_data_says_what_and_where(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    good = tmp_path / "train.tgt"
    cases = {
        "short": (good.read_bytes().split(b"\n", 1)[1], "lines"),
        "empty": (b"", "empty"),
        "junk": (bytes(range(256)) * 50, "line 1"),
        "latin": ("weiß\n".encode("latin-1") * 180, "line 1"),
        "long": (b"rot " * 300_000 + b"\n" + good.read_bytes(), "line 1"),
    }
    for name, (data, told) in cases.items():
        bad = tmp_path / name
        bad.write_bytes(data)
        said = regard("train", "--source", tmp_path / "train.src", "--target", bad, "--out", tmp_path / "o", code=2)
        text = said.stderr.decode()
        assert str(bad) in text, name
        assert told in text, (name, text)


def test_windows_line_ends_and_a_byte_order_mark_are_no_words(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=2)
    regard("train", recipe, "--out", tmp_path / "unix")
    for name in ("train.src", "train.tgt"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    regard("train", recipe, "--out", tmp_path / "windows")
    unix, windows = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("unix", "windows"))
    assert unix == windows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "give a recipe, or --source FILE and --target FILE"),
        (["train", "missing.yaml"], "missing.yaml"),
        (["train", "--source", "a", "--target", "b", "--out", "/dev/null/x"], "choose another --out"),
        (["train", "--source", "no/such.en", "--target", "no/such.de", "--out", "OUT"], "no/such.en"),
        (["train", "RECIPE", "--source", "a"], "give one or the other"),
        (["train", "RECIPE", "--out", "OUT", "--set", "train.stepz=3"], "did you mean steps?"),
        (["train", "RECIPE", "--out", "OUT", "--set", "train.lr=fast"], "train.lr=fast"),
        (["train", "RECIPE", "--out", "OUT", "--set", "version=2"], "version 2"),
        (["run", "no/such/model"], "no/such/model: is no folder"),
        (["run", "OUT"], "config.json: is missing"),
        (["run", "MODEL", "no/such/file"], "no/such/file: cannot be read"),
        (["run", "MODEL", "--nbest", "3"], "add --json"),
        (["run", "MODEL", "--tag", "de"], "de"),
        (["run", "MODEL", "--batch-size", "0"], "holds no sentence"),
    ],
)
def test_mistakes_end_with_code_2_and_a_way_out(
    arguments: list[str], message: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    places = {"OUT": str(tmp_path / "out"), "MODEL": str(model), "RECIPE": str(model.parent / "toy.yaml")}
    done = regard(*[places.get(word, word) for word in arguments], stdin=b"rot\n", code=2)
    assert message in done.stderr.decode()


def test_a_model_can_be_trained_further_and_a_run_go_on_with_changes(model: Path, tmp_path: Path) -> None:
    recipe = model.parent / "toy.yaml"
    regard("train", recipe, "--out", tmp_path / "further", "--from", model, "--set", "train.steps=2")
    first, second = (
        json.loads((p / "metrics.jsonl").read_text("utf-8").splitlines()[0]) for p in (model, tmp_path / "further")
    )
    assert second["valid_loss"] < first["valid_loss"], "it begins where the other ended"
    assert (tmp_path / "further" / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    wrong = regard("train", recipe, "--out", tmp_path / "x", "--from", model, "--set", "model.width=32", code=2)
    assert "has another shape than this recipe" in wrong.stderr.decode()

    out = tmp_path / "run"
    regard("train", recipe, "--out", out, "--set", "train.steps=20")
    said = regard("train", recipe, "--out", out, "--set", "train.steps=30", "--continue").stderr.decode()
    assert "train.steps: 20 -> 30" in said
    assert "going on after step 20" in said
    assert [p.name for p in sorted((out / "checkpoints").iterdir())][-1] == "step-30"
    fixed = regard("train", recipe, "--out", out, "--set", "model.width=32", "--continue", code=2).stderr.decode()
    assert "model.width: 16 -> 32" in fixed
    assert "use --from instead" in fixed


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    import fcntl

    recipe, out = write_recipe(tmp_path), tmp_path / "run"
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another run is at work" in regard("train", recipe, "--out", out, code=2).stderr.decode()


def test_a_damaged_model_is_refused(model: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("checkpoints", "store"))
    config = json.loads((copy / "config.json").read_text("utf-8"))
    for change, told in (
        ({"model": {**config["model"], "source_vocabulary": 10**9, "target_vocabulary": 10**9}}, "does not fit"),
        ({"model": {**config["model"], "kind": "os.system"}}, "config.json"),
        ({"format": "other"}, "is not a Regard model"),
        ({"version": 9}, "format version 9"),
    ):
        (copy / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
        assert told in regard("run", copy, stdin=b"rot\n", code=2).stderr.decode()
    (copy / "config.json").write_text(json.dumps(config), "utf-8")
    (copy / "model.safetensors").write_bytes(b"\x80\x04junk")
    assert "cannot be read" in regard("run", copy, stdin=b"rot\n", code=2).stderr.decode()
