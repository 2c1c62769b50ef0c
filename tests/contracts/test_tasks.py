"""What every task of the registry can do, from `init` to `attend`, on a miniature of its data."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import regard as library
from regard.errors import UserError
from regard.tasks.folder import load_folder
from regard.tasks.registry import FORMER, TASKS, parse_recipe, read_recipe, starter
from tests.cli.reading import FILL, data_for, regard, words_at
from tests.contracts.snippets import python_blocks
from tests.serve.toys import answers

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TINY = ("--set", "train.minutes=null", "--set", "train.epochs=null", "--set", "train.steps=4", "--threads", 1)
MORE = ("--set", "train.batch_tokens=200", "--set", "train.checkpoints=2", "--set", "train.evaluations=2")
GPT = ("model.width=16", "model.num_layers=1", "data.tokenizer.vocabulary=320", "data.context=16")
READER = ("model.trunk.width=16", "model.trunk.hidden=24", "model.trunk.num_heads=2", "model.trunk.num_layers=1",
          "model.init_from=null", "data.tokenizer.vocabulary=320", "data.max_length=30")  # fmt: skip
SETTINGS: dict[str, tuple[str, ...]] = {  # what makes a starter recipe small
    "translation": ("model.width=16", "model.hidden=24", "model.num_heads=2", "model.encoder_layers=1",
                    "model.decoder_layers=1", "data.tokenizer.vocabulary=320", "data.hold_out=0.2"),
    "lm": (*GPT, "model.num_heads=2", "model.hidden=24"),
    "mlm": (*GPT, "model.num_heads=2", "model.hidden=24"),
    "bilm": ("model.embedding=8", "model.width=8", *GPT[2:]),
}  # fmt: skip
LINES = {  # what `run` reads, and how `evaluate` is asked
    "mlm": "one [MASK] three",
    "regression": "one two\tthree",
    "choice": "one\ttwo\tthree four",
    "spans": "so is one two\twhat so?",
}
RUNS: dict[str, dict[str, Any]] = {"lm": {"beam": 1}, "bilm": {"vectors": True}}
ATTENDS = [name for name in TASKS if name != "bilm"]


def miniature(task: str, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Settings that name a little data, and how a model is evaluated on them."""
    lines = "".join(" ".join(words_at(i, 3 + i % 4)) + "\n" for i in range(80))
    (folder / "a").write_text(lines, "utf-8")
    if task == "translation":
        source = str(folder / "a")
        return [f"data.train=[{{source: {source}, target: {source}.b}}]"], {"source": source, "target": f"{source}.b"}
    if task in ("lm", "mlm", "bilm"):
        return [f"data.train=[{{file: {folder / 'a'}}}]"], {"text": str(folder / "a")}
    data = str(data_for(task, folder))
    return [f"data.train=[{{file: {data}}}]", "data.hold_out=0.2"], {"data": data}


@pytest.mark.parametrize("task", TASKS)
def test_from_init_to_attend(task: str, tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(regard("init", task)[0], "utf-8")
    data, evaluation = miniature(task, tmp_path)
    (tmp_path / "a.b").write_text((tmp_path / "a").read_text("utf-8").upper(), "utf-8")
    settings = [part for each in (*data, *SETTINGS.get(task, READER)) for part in ("--set", each)]
    told = json.loads(regard("check", recipe, *settings, *TINY[:-2], *MORE, "--json")[0])
    assert told["problems"] == {}
    assert told["updates"] == "4"
    regard("train", recipe, *settings, *TINY, *MORE, "--out", out)
    weights = (out / "model.safetensors").read_bytes()
    assert "finished" in regard("train", recipe, *settings, *TINY, *MORE, "--out", out)[1]
    assert (out / "model.safetensors").read_bytes() == weights
    assert TASKS[task].purpose in (out / "README.md").read_text("utf-8")

    line = LINES.get(task, "one two three")
    own = RUNS.get(task, {})
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in own.items()]
    said, _ = regard("run", out, "--json", *flags, stdin=f"{line}\n{line}\n".encode())
    first, second = map(json.loads, said.splitlines())
    assert first == second
    assert first["input"] == line
    assert len(regard("run", out, *flags, stdin=f"{line}\n{line}\n".encode())[0].splitlines()) == 2
    assert "Usage" in regard_help("run", out)

    arguments = [part for name, value in evaluation.items() for part in (f"--{name}", value)]
    scores = json.loads(regard("evaluate", out, *arguments, "--json")[0])
    assert scores
    model = library.load(out)
    assert model.evaluate(**evaluation).data.keys() == scores.keys()
    assert model.loaded.task == task
    assert task in repr(model) or TASKS[task].purpose in repr(model)
    (one, two) = model.predict([line, line], model.options(own))
    assert json.loads(json.dumps({"input": line, **one.data})) == first
    assert one == two
    served(task, out, line, own, first)
    for verb, sets in TASKS[task].verbs.items():
        plain = {*flags} | {f"--{name}" for name in sets}
        same = [regard(*words, stdin=line.encode())[0] for words in ((verb, out, *flags), ("run", out, *plain))]
        assert same[0] == same[1]
    with pytest.raises(UserError, match="no option 'colour'"):
        model.options({"colour": "red"})
    if task in ATTENDS:
        model.attend(line).save(tmp_path / "look.svg")
        assert (tmp_path / "look.svg").read_text("utf-8").startswith("<svg")
        regard("attend", out, line, "-o", tmp_path / "look.json")
        assert json.loads((tmp_path / "look.json").read_text("utf-8"))["attention"]


def served(task: str, out: Path, line: str, own: dict[str, Any], by_run: dict[str, Any]) -> None:
    """The service gives what `regard run --json` gives, attention, and vectors where there are some."""
    run = {"text": [line, line], "model": out.name, "options": own}
    paths = {"/api/attention": {"text": line}, "/v1/embeddings": {"model": out.name, "input": [line, "one"]}}
    (status, found), (_, blank), (looked, look), (embedded, vectors), (odd, why) = answers(
        out,
        ("/api/run", run),
        ("/api/run", {**run, "text": " "}),
        *paths.items(),
        ("/api/run", {**run, "options": {"x": 1}}),
    )
    assert (status, found["task"]) == (200, task)
    assert [{name: each[name] for name in each if name != "line"} for each in found["results"]] == [by_run] * 2
    assert not blank["results"][0]["line"].strip() or "vector" in blank["results"][0]
    assert (looked, bool(look.get("maps"))) == ((200, True) if task in ATTENDS else (400, False))
    assert odd == 400
    assert "'x'" in why["error"]
    if "embed" in TASKS[task].verbs:
        expected = library.load(out).embed([line, "one"])
        assert torch.allclose(torch.tensor([each["embedding"] for each in vectors["data"]]), expected, atol=1e-6)
    else:
        assert (embedded, vectors["error"]["param"]) == (400, "model")


@pytest.fixture
def sums() -> Iterator[None]:
    """The task that CONTRIBUTING shows."""
    (block,) = (code for code in python_blocks("CONTRIBUTING.md") if "TaskSpec" in code)
    assert len([line for line in block.splitlines() if line.strip()]) <= 80
    exec(compile(block, "CONTRIBUTING.md", "exec"), {"__name__": "sums"})
    yield
    del TASKS["sums"]


@pytest.mark.usefixtures("sums")
def test_a_task_in_one_file_has_all_commands(tmp_path: Path) -> None:
    recipe, out = tmp_path / "sums.yaml", tmp_path / "run"
    recipe.write_text(
        "task: sums\ntrain: {steps: 400, batch_tokens: 512, lr: 0.01, evaluations: 2, checkpoints: 2}\n", "utf-8"
    )
    assert json.loads(regard("check", recipe, "--json")[0])["updates"] == "400"
    regard("train", recipe, "--out", out, "--threads", 1)
    assert "finished" in regard("train", recipe, "--out", out, "--threads", 1)[1]
    (first, blank, _) = regard("run", out, stdin=b"3+4=\n\n")[0].split("\n")
    assert first.isdigit()
    assert blank == ""
    assert 0.4 < json.loads(regard("evaluate", out, "--count", 30, "--json")[0])["right"] <= 1
    assert "--count" in regard_help("evaluate", out)
    regard("attend", out, "3+4=", "-o", tmp_path / "look.svg")
    ((status, answer),) = answers(out, ("/api/run", {"text": ["3+4=", " "]}))
    assert (status, [each["sum"] for each in answer["results"]]) == (200, [first, ""])
    assert library.load(out).evaluate(count=10).data["sums"] == 10
    with pytest.raises(UserError, match="adding"):
        regard("compare", recipe, "--out", tmp_path / "compare")


def regard_help(*arguments: object) -> str:
    out, _ = regard(*arguments, "--help")
    return out


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_of_version_1_means_the_same(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its keys are renamed, and the user is told once."""
    old = yaml.safe_load(starter(task)) | {"version": 1}
    former = {now: before for before, now in FORMER.items()}
    if "task" in old:
        old["task"] = former.get(task, task)
    names = {"epochs": "passes", "lora_rank": "lora", "mask_rate": "masked", "whole_word_masking": "whole_words"}
    for section in ("data", "train", "model"):
        old[section] = {names.get(key, key): value for key, value in old[section].items()}
    if "init_from" in old["model"]:
        old["model"]["base"] = old["model"].pop("init_from")
    text = f"# {task}\n{yaml.safe_dump(old)}"
    assert parse_recipe(text, f"{task}.yaml") == parse_recipe(starter(task), task)
    parse_recipe(text, f"{task}.yaml")
    notes = re.findall(r"version 1", capsys.readouterr().err)
    assert len(notes) == (task != "translation")


def test_fixtures_of_version_1_are_of_tasks_with_their_new_names() -> None:
    root = Path(__file__).parents[1] / "fixtures" / "models"
    assert {load_folder(path).task for path in root.iterdir()} == TASKS.keys()
    assert FILL


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "fixtures" / "models").glob("*/recipe.yaml")), ids=str
)
def test_a_stored_recipe_is_read_though_keys_have_gone(path: Path) -> None:
    """Where they are as all models have them; another value is an unknown key."""
    text = path.read_text("utf-8")
    assert read_recipe(path)
    gone = [line for line in text.splitlines() if line.split(":")[0].strip() in ("output_bias", "embedding_norm")]
    for line in gone:
        name, value = line.split(": ")
        other = text.replace(line, f"{name}: {'false' if value == 'true' else 'true'}")
        with pytest.raises(UserError, match=name.strip()):
            parse_recipe(other, "recipe.yaml")


def test_a_recipe_chooses_how_attention_is_computed() -> None:
    text = starter("translation")
    assert parse_recipe(text, "a", ["model.kernel=chunked"]).model.kernel == "chunked"
    with pytest.raises(UserError, match=r"model\.kernel.*chunked"):
        parse_recipe(text, "a", ["model.kernel=quick"])
