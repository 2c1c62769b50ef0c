"""The program as its users meet it: lines in and out, scores, and what it says of mistakes."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import load
from tests.training.toy import command, regard, write_corpus, write_recipe


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
    assert b" train " in done.stdout


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
    assert re.search(b"line 4 .*UTF-8", done.stderr)
    assert re.search(b"line 10 .* 256 .* 16 ", done.stderr)
    assert regard("run", model, stdin=b"").stdout == b""
    assert regard("run", model, stdin=b"\xef\xbb\xbfrot blau").stdout.split(b"\n")[0] == out[0]
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
        (["rot", "-o", tmp_path / "x.bmp"], r"x\.bmp.*\.svg, \.png, \.html, \.json"),
        (["rot", "--site", "nowhere"], "nowhere.*encoder.0.self"),
        (["rot", "--head", 7], "heads 0 .*1.* 7"),
    ):
        assert re.search(told, regard("attend", model, *arguments, code=2).stderr.decode())


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
    assert "FLOPs" in (model / "README.md").read_text("utf-8")


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
        (["train"], "--source.*--target.*--text"),
        (["train", "missing.yaml"], "missing.yaml"),
        (["train", "RECIPE", "--out", "/dev/null/x"], "/dev/null/x.*--out"),
        (["train", "--source", "no/such.en", "--target", "no/such.de", "--out", "OUT"], "no/such.en"),
        (["train", "RECIPE", "--source", "a"], "recipe .*--source"),
        (["train", "--source", "a"], "--target .*--source"),
        (["train", "--source", "a", "--target", "a"], r"--source .*--target .*\ba\b"),
        (["train", "--source", "a", "--target", "b", "--minutes", "0"], r"--minutes 0\b"),
        (["train", "RECIPE", "--out", "OUT", "--set", "train.stepz=3"], r"train\.stepz.*\bsteps\b"),
        (["train", "RECIPE", "--out", "OUT", "--set", "train.lr=fast"], "train.lr=fast"),
        (["train", "RECIPE", "--out", "OUT", "--set", "version=3"], "version 3"),
        (["run", "no/such/model"], "no/such/model"),
        (["run", "OUT"], "config.json"),
        (["run", "MODEL", "no/such/file"], "no/such/file.*No such file"),
        (["run", "MODEL", "--nbest", "3"], "--nbest .*--json"),
        (["run", "MODEL", "--tag", "de"], "'de'"),
        (["run", "MODEL", "--batch-size", "0"], r"batch.size 0\b"),
    ],
)
def test_mistakes_end_with_code_2_and_a_way_out(
    arguments: list[str], message: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    places = {"OUT": str(tmp_path / "out"), "MODEL": str(model), "RECIPE": str(model.parent / "toy.yaml")}
    done = regard(*[places.get(word, word) for word in arguments], stdin=b"rot\n", code=2)
    assert re.search(message, done.stderr.decode())


def test_a_model_can_be_trained_further_and_a_run_go_on_with_changes(model: Path, tmp_path: Path) -> None:
    recipe = model.parent / "toy.yaml"
    regard("train", recipe, "--out", tmp_path / "further", "--from", model, "--set", "train.steps=2")
    first, second = (
        json.loads((p / "metrics.jsonl").read_text("utf-8").splitlines()[0]) for p in (model, tmp_path / "further")
    )
    assert second["valid_loss"] < first["valid_loss"], "it begins where the other ended"
    assert (tmp_path / "further" / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    wrong = regard("train", recipe, "--out", tmp_path / "x", "--from", model, "--set", "model.width=32", code=2)
    assert re.search(r"/run .*weight.*recipe\.yaml", wrong.stderr.decode())

    out = tmp_path / "run"
    regard("train", recipe, "--out", out, "--set", "train.steps=20")
    said = regard("train", recipe, "--out", out, "--set", "train.steps=30", "--continue").stderr.decode()
    assert "train.steps: 20 -> 30" in said
    assert any("step 20" in line and "best" not in line for line in said.splitlines())
    assert [p.name for p in sorted((out / "checkpoints").iterdir())][-1] == "step-30"
    fixed = regard("train", recipe, "--out", out, "--set", "model.width=32", "--continue", code=2).stderr.decode()
    assert "model.width: 16 -> 32" in fixed
    assert "--from" in fixed


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    import fcntl

    recipe, out = write_recipe(tmp_path), tmp_path / "run"
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert re.search(r"/run\b.*--out", regard("train", recipe, "--out", out, code=2).stderr.decode())


def test_a_damaged_model_is_refused(model: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("checkpoints", "store"))
    config = json.loads((copy / "config.json").read_text("utf-8"))
    del config["sha256"]
    for change, told in (
        ({"model": {**config["model"], "source_vocabulary": 10**9, "target_vocabulary": 10**9}}, "_vocabulary"),
        ({"model": {**config["model"], "source_vocabulary": 99, "target_vocabulary": 99}}, "safetensors.*config.json"),
        ({"model": {**config["model"], "kind": "os.system"}}, "config.json"),
        ({"format": "other"}, "config.json.*model_type None"),
        ({"version": 9}, "version 9"),
    ):
        (copy / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
        assert re.search(told, regard("run", copy, stdin=b"rot\n", code=2).stderr.decode())
    (copy / "config.json").write_text(json.dumps(config), "utf-8")
    (copy / "model.safetensors").write_bytes(b"\x80\x04junk")
    assert "model.safetensors" in regard("run", copy, stdin=b"rot\n", code=2).stderr.decode()


def test_output_goes_on_after_a_kill_and_only_for_the_same_job(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_bytes((model.parent / "valid.src").read_bytes())
    wanted = regard("run", model, text).stdout
    out = tmp_path / "out.txt"
    regard("run", model, text, "--output", out)
    assert out.read_bytes() == wanted
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []

    (tmp_path / "x").mkdir()  # a folder in the place of the output: the end fails, and nothing is lost
    with pytest.raises(AssertionError, match=r"/x\b.*Is a directory"):
        regard("run", model, text, "--output", tmp_path / "x")
    (partial,) = tmp_path.glob("x.*.partial")
    marked = b"kept\n" * 7 + b"half a li"  # as a kill in the middle of a write would leave it
    partial.write_bytes(marked)
    (tmp_path / "x").rmdir()
    other = regard("run", model, text, "--output", tmp_path / "x", "--beam", 1)
    assert b".partial" not in other.stderr
    assert partial.read_bytes() == marked
    done = regard("run", model, text, "--output", tmp_path / "x")
    assert re.search(rb"\.partial .*\b7 ", done.stderr)
    assert (tmp_path / "x").read_bytes() == b"kept\n" * 7 + b"".join(wanted.splitlines(keepends=True)[7:])


def test_a_live_pipe_is_answered_line_by_line(model: Path) -> None:
    with subprocess.Popen(command("run", model), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"rot blau\n", b"\n", b"gelb\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")  # would wait for ever if it were held back
        process.stdin.close()
        assert process.stdout.read() == b""


@torch.no_grad()
def test_targets_are_scored_as_the_model_sees_them(model: Path, tmp_path: Path) -> None:
    from regard.shapes import Padded

    files = ("--source", model.parent / "valid.src", "--target", model.parent / "valid.tgt")
    done = regard("evaluate", model, *files, "--score", "--json", "--output", tmp_path / "scores")
    said = json.loads(done.stdout)
    loaded = load(model)
    expected, tokens = [], 0
    for source, target in zip(*(path.read_text("utf-8").splitlines() for path in files[1::2]), strict=True):
        ids = [1, *loaded.tokenizers.target.encode([target])[0], 2]
        logits = loaded.model(Padded.of(loaded.tokenizers.read([source])), torch.tensor([ids[:-1]]))
        expected.append(float(logits.log_softmax(-1)[0, range(len(ids) - 1), ids[1:]].sum()))
        tokens += len(ids) - 1
    assert [float(x) for x in (tmp_path / "scores").read_text().split()] == pytest.approx(expected, abs=1e-4)
    assert said["tokens"] == tokens
    assert said["perplexity"] == pytest.approx(math.exp(-sum(expected) / tokens), rel=1e-4)
    refused = regard("evaluate", model, *files, "--score", "--beam", 2, code=2)
    assert re.search("score .*beam", refused.stderr.decode())


def test_two_systems_are_compared_by_paired_bootstrap(model: Path, tmp_path: Path) -> None:
    files = ("evaluate", model, "--source", model.parent / "valid.src", "--target", model.parent / "valid.tgt")
    regard(*files, "--output", tmp_path / "own")
    same = json.loads(regard(*files, "--against", tmp_path / "own", "--json").stdout)
    assert same["bleu_against"]["difference"] == 0.0
    assert same["bleu_against"]["p_value"] == 1.0
    (tmp_path / "perfect").write_bytes((model.parent / "valid.tgt").read_bytes())
    assert "bootstrap" in (said := regard(*files, "--against", tmp_path / "perfect").stdout.decode())
    assert "100.00" in said
    (tmp_path / "short").write_text("rot\n")
    refused = regard(*files, "--against", tmp_path / "short", code=2)
    assert re.search(r"valid\.src .*20 .*short.* 1\b", refused.stderr.decode())


def test_one_model_of_two_directions_follows_the_tag(tmp_path: Path) -> None:
    recipe = json.loads(write_recipe(tmp_path, steps=700, batch_tokens=256, evaluations=1).read_text("utf-8"))
    (pair,), (held,) = recipe["data"]["train"], recipe["data"]["valid"]
    same = {**pair, "target": pair["source"], "tag": "same"}  # one direction copies, the other turns around
    recipe["data"].update(train=[{**pair, "tag": "back"}, same], valid=[{**held, "tag": "back"}])
    recipe["model"].update(width=32, hidden=64, dropout=0.0)
    (tmp_path / "tags.yaml").write_text(json.dumps(recipe), "utf-8")
    out = tmp_path / "run"
    regard("train", tmp_path / "tags.yaml", "--out", out)
    text = (tmp_path / "train.src").read_text("utf-8").splitlines()[:20]
    stdin = "".join(f"{line}\n" for line in text).encode()
    wanted = {"same": text, "back": [" ".join(line.split()[::-1]) for line in text]}
    for tag, expected in wanted.items():
        said = regard("run", out, "--tag", tag, stdin=stdin).stdout.decode().splitlines()
        assert sum(a == b for a, b in zip(said, expected, strict=True)) >= 15, tag
    assert "back, same" in regard("run", out, "--tag", "fr", stdin=stdin, code=2).stderr.decode()


def test_tensorboard_reads_what_was_logged(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "run"
    regard("train", write_recipe(tmp_path), "--out", out, "--tensorboard")
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    logged = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    read = [(event.step, event.value) for event in events.Scalars("valid_loss")]
    assert read == [(entry["step"], pytest.approx(entry["valid_loss"], rel=1e-6)) for entry in logged]
