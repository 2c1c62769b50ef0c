"""Sequences of vectors, which have no vocabulary, through every command: to labels, to numbers and to text."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard as library
from regard.errors import UserError
from regard.rng import Key
from tests.cli.reading import regard
from tests.serve.toys import answers

WORDS = ("up", "down", "flat")
SMALL = "width: 16, hidden: 24, num_heads: 2, placement: pre, position: {kind: rotary}"


def gesture(i: int) -> tuple[np.ndarray[Any, Any], str]:
    """Three noisy features, of which the second rises, falls or stays."""
    draw = Key(0, ("gesture", i)).generator()
    label, steps = i % 3, int(draw.integers(6, 14))
    x = draw.normal(size=(steps, 3)) * 0.2 + (5.0, -3.0, 100.0)
    x[:, 1] += np.linspace(-1, 1, steps) * (1, -1, 0)[label]
    return x, WORDS[label]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same gestures in one file and in many, to labels, numbers and text."""
    here = tmp_path_factory.mktemp("gestures")
    rows = [gesture(i) for i in range(240)]
    x = np.zeros((len(rows), 14, 3), np.float32)
    for row, (values, _) in zip(x, rows, strict=True):
        row[: len(values)] = values
    lengths, labels = [len(values) for values, _ in rows], [label for _, label in rows]
    np.savez(here / "all.npz", x=x, lengths=lengths, y=labels)
    np.savez(here / "numbers.npz", x=x, lengths=lengths, y=[values[-1, 1] - values[0, 1] for values, _ in rows])
    (here / "each").mkdir()
    for i, (values, _) in enumerate(rows):
        np.savetxt(here / "each" / f"{i} ü.csv", values, delimiter=",", header="a,b,c", comments="")
    names = [f"each/{i} ü.csv" for i in range(len(rows))]
    (here / "list.txt").write_text("".join(f"{name}\n" for name in names), "utf-8")
    (here / "text.txt").write_text("".join(f"it goes {label}\n" for label in labels), "utf-8")
    pairs = [f"{name}\t{label}\n" for name, label in zip(names, labels, strict=True)]
    (here / "labels.tsv").write_text("text\tlabel\n" + "".join(pairs), "utf-8")
    for name, recipe in RECIPES.items():
        (here / f"{name}.yaml").write_text(recipe.replace("HERE", str(here)), "utf-8")
    return here


READERS = f"""
model: {{trunk: {{kind: bert, num_layers: 1, {SMALL}}}}}
train: {{steps: 80, batch_tokens: 600, lr: 0.02, evaluations: 2, checkpoints: 2}}
"""
RECIPES = {
    "classification": """
task: classification
data: {input: {kind: vectors}, train: [{file: HERE/all.npz}], hold_out: 0.2, max_length: 20}"""
    + READERS,
    "regression": """
task: regression
data: {input: {kind: vectors, stack: 2}, train: [{file: HERE/numbers.npz}], hold_out: 0.2, max_length: 20}"""
    + READERS,
    "elmo": """
task: classification
data: {input: {kind: vectors}, train: [{file: HERE/labels.tsv}], hold_out: 0.2, max_length: 20}
model: {trunk: {kind: elmo, embedding: 12, width: 16, num_layers: 1}}
train: {steps: 60, batch_tokens: 600, lr: 0.02, evaluations: 2, checkpoints: 2}
""",
    "translation": f"""
data:
  input: {{kind: vectors}}
  train: [{{source: HERE/list.txt, target: HERE/text.txt}}]
  hold_out: 0.2
  tokenizer: {{kind: words, vocabulary: 20}}
  max_length: 20
model: {{tied: output, encoder_layers: 1, decoder_layers: 1, dropout: 0.0, {SMALL}}}
train: {{steps: 140, batch_tokens: 400, lr: 0.01, evaluations: 2, checkpoints: 2, metric: exact_match}}
""",
    "recurrent": """
data:
  input: {kind: vectors}
  train: [{source: HERE/all.npz, target: HERE/text.txt}]
  hold_out: 0.2
  tokenizer: {kind: words, vocabulary: 20}
  max_length: 20
model: {kind: recurrent, tied: output, embedding: 12, width: 24}
train: {steps: 60, batch_tokens: 400, lr: 0.01, evaluations: 2, checkpoints: 2, metric: exact_match}
""",
}
EVALUATED = {  # options, a metric and how good it has to be; a guess gives a third, or nothing
    "classification": ({"data": "all.npz"}, "accuracy", 90.0),
    "regression": ({"data": "numbers.npz"}, "pearson", 0.8),
    "elmo": ({"data": "labels.tsv"}, "accuracy", 60.0),
    "translation": ({"source": "list.txt", "target": "text.txt"}, "exact_match", 0.6),
    "recurrent": ({"source": "all.npz", "target": "text.txt"}, "exact_match", 0.5),
}


@pytest.mark.parametrize("name", RECIPES)
def test_vectors_go_through_every_command(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    out = Path(f"run-{name}")
    told = json.loads(regard("check", f"{name}.yaml", "--json")[0])
    assert (told["problems"], told["updates"]) == ({}, re.findall(r"steps: (\d+)", RECIPES[name])[0])
    regard("train", f"{name}.yaml", "--out", out, "--threads", 1)
    weights = (out / "model.safetensors").read_bytes()
    assert "finished" in regard("train", f"{name}.yaml", "--out", out, "--threads", 1)[1]
    assert (out / "model.safetensors").read_bytes() == weights

    options, metric, least = EVALUATED[name]
    flags = [part for key, value in options.items() for part in (f"--{key}", value)]
    scores = json.loads(regard("evaluate", out, *flags, "--json")[0])
    assert (scores[metric]["value"] if isinstance(scores[metric], dict) else scores[metric]) >= least

    # The same item by its name in one file, as a file of its own, and as numbers; blank in, blank out.
    items = [
        "all.npz#7",
        "each/7 ü.csv",
        "",
        json.dumps(np.load("all.npz")["x"][7, :13].round(6).tolist()[: length(7)]),
    ]
    lines = regard("run", out, stdin="".join(f"{item}\n" for item in items).encode())[0].split("\n")[:-1]
    assert lines[2] == ""
    assert lines[0] == lines[1] != ""
    assert lines[3].split("\t")[0] == lines[0].split("\t")[0]
    assert regard("run", out, "each/7 ü.csv", "list.txt")[0].split("\n")[:1] == lines[:1]
    assert len(regard("run", out, "all.npz", "--json")[0].splitlines()) == 240
    model = library.load(out)
    assert model.predict(items[:1], model.options({}))[0].line == lines[0]

    look = model.attend("all.npz#7") if name != "recurrent" else model.attend("all.npz#7", "it goes up")
    kinds = look.json()["kinds"]
    assert kinds["source"] == "times"
    look.save("look.svg")
    regard("attend", out, "each/7 ü.csv", "-o", "look.html")

    values = json.loads(items[3])
    (status, said), (refused, why), (_, odd), (both, _) = answers(
        out,
        ("/api/run", {"values": [values, values]}),
        ("/api/run", {"text": "all.npz#7"}),
        ("/api/run", {"values": [[[1.0]]]}),
        ("/api/run", {"values": [values], "text": "a"}),
    )
    assert (status, len(said["results"]), both) == (200, 2, 400)
    assert said["results"][0]["line"].split("\t")[0] == lines[0].split("\t")[0]
    assert refused == 400
    assert "send numbers" in why["error"]
    assert "1 features" in odd["error"]


def length(i: int) -> int:
    return len(gesture(i)[0])


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("task: classification", "task: tagging"), ["tagging", "classification"]),
        (("kind: bert", "kind: gpt"), ["gpt", "bert or elmo"]),
        (("kind: vectors", "kind: pictures"), ["pictures", "vectors"]),
        (("all.npz", "list.txt"), ["list.txt", ".npz"]),
        (("all.npz", "gone.npz"), ["gone.npz"]),
    ],
)
def test_what_does_not_go_together_is_told(
    change: tuple[str, str], names: list[str], folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text((folder / "classification.yaml").read_text("utf-8").replace(*change), "utf-8")
    with pytest.raises(UserError) as caught:
        regard("train", recipe, "--out", tmp_path / "run", "--threads", 1)
    assert all(name in str(caught.value) for name in names), str(caught.value)


def test_a_model_of_vectors_is_not_exported_as_one_of_text(folder: Path, tmp_path: Path) -> None:
    if not (folder / "run-translation" / "config.json").exists():
        regard("train", folder / "translation.yaml", "--out", folder / "run-translation", "--threads", 1)
    for kind in ("native", "huggingface", "onnx", "ctranslate2"):
        with pytest.raises(UserError, match="text"):
            regard("export", folder / "run-translation", tmp_path / kind, "--to", kind)
    assert not list(tmp_path.iterdir())


def test_recordings_that_changed_are_named(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = ("--set", "train.steps=2", "--set", "train.evaluations=1", "--set", "train.checkpoints=1")
    regard("train", folder / "elmo.yaml", "--out", out, "--threads", 1, *settings)
    path = folder / "each" / "3 ü.csv"
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(b"a,b,c\n", b"a,b,d\n"))
        with pytest.raises(UserError, match="3 ü"):
            regard("train", folder / "elmo.yaml", "--out", out, "--threads", 1, *settings)
    finally:
        path.write_bytes(before)
