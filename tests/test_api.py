"""From Python: one script that trains, evaluates, translates, looks, streams and compares."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.errors import UserError
from tests.training.toy import write_recipe

SCRIPT = """
import regard

tiny = ["model.width=16", "model.hidden=24", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1"]
short = ["train.minutes=null", "train.steps=6", "train.batch_tokens=128", "train.checkpoints=2", "train.evaluations=2"]
files = {"source": "train.src", "target": "train.tgt"}
model = regard.train(**files, out="runs/toy", settings=[*tiny, *short, "data.tokenizer.vocabulary=320"], threads=1)
print(model)

scores = model.evaluate(source="valid.src", target="valid.tgt").data
print(scores["sentences"], "sentences, BLEU", scores["bleu"]["value"])

model = regard.load("runs/toy", threads=1)
best = model("rot blau", beam=2, max_tokens=8)
outputs = model.translate(["rot blau", "grau"], beam=3, num_best=2, alignment=True, max_tokens=8)
for output in outputs[0]:
    print(output.text, output.score, output.tokens, output.alignment)

look = model.attend("rot blau")
look.save("look.svg")
weights = {site: map.numpy() for site, map in look.maps.items()}  # heads x output tokens x source tokens

lm = ["model.width=16", "model.hidden=24", "model.num_heads=2", "model.num_layers=1", "data.context=16",
      "data.tokenizer.vocabulary=320"]
writer = regard.train(text="text.txt", out="runs/lm", settings=[*lm, *short], threads=1)
for piece in writer.generate("rot", stream=True, max_tokens=8, seed=1):
    print(piece, end="")

table = regard.compare(["toy.yaml", "wide.yaml"], seeds=1, out="runs/compare", threads=1, settings=["train.steps=4"])
print(table.markdown())
"""


def test_thirty_lines_do_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(tmp_path)
    (tmp_path / "wide.yaml").write_text(recipe.read_text("utf-8").replace('"hidden": 24', '"hidden": 32'), "utf-8")
    (tmp_path / "text.txt").write_text((tmp_path / "train.src").read_text("utf-8") * 20, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 30
    known: dict[str, object] = {}
    exec(compile(SCRIPT, "script", "exec"), known)
    said = capsys.readouterr().out
    assert "a transformer for translation" in said
    assert "| toy |" in said
    assert "| wide |" in said
    weights, outputs = known["weights"], known["outputs"]
    assert isinstance(weights, dict)
    assert all(isinstance(each, np.ndarray) and np.allclose(each.sum(-1), 1, atol=1e-5) for each in weights.values())
    assert isinstance(outputs, list)
    assert [len(each) for each in outputs] == [2, 2]
    assert outputs[0][0].score >= outputs[0][1].score
    assert known["best"] == regard.load("runs/toy", threads=1)(["rot blau"], beam=2, max_tokens=8)[0]  # type: ignore[operator]
    assert (tmp_path / "look.svg").exists()


def test_an_option_that_is_not_there_is_named(tmp_path: Path) -> None:
    model = regard.load(Path(__file__).parent / "fixtures" / "models" / "bert")
    with pytest.raises(UserError, match="'beam'.*num_best"):
        model.options({"beam": 3})
