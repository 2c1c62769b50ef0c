"""Language modelling: windows, carry, documents apart, and losses by brute force."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.config import PositionConfig
from regard.data.config import RunningText, TextDataConfig, TokenizerConfig
from regard.data.tokenizer import END
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentTextConfig
from regard.tasks import running_text as texts
from regard.tasks.lm.task import LanguageModelling, Text
from regard.tasks.running_text import pieces
from tests.training.toy import regard

LINES = ["to be, or not", "to be: that", "", "is the question", "", "", "whether 'tis", "nobler"]
CHARACTERS = TokenizerConfig(kind="characters", vocabulary=60, normalise="none")


@pytest.fixture
def play(tmp_path: Path) -> Path:
    path = tmp_path / "play.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def data(play: Path, **settings: Any) -> TextDataConfig:
    given = {"train": (RunningText(file=str(play)),), "tokenizer": CHARACTERS, "context": 8}
    return TextDataConfig(**{**given, **settings})  # type: ignore[arg-type]


def small(tokens: int, kind: str) -> Any:
    if kind == "recurrent":
        return build(RecurrentTextConfig(vocabulary=tokens, embedding=6, width=8)).double()
    return build(
        GptConfig(vocabulary=tokens, width=8, hidden=8, num_heads=2, position=PositionConfig(kind="rotary"))
    ).double()


def test_documents_are_files_paragraphs_or_lines(play: Path) -> None:
    where = [RunningText(file=str(play))]
    whole = list(pieces(where, "file"))
    assert "".join(text for text, _ in whole) == play.read_text("utf-8")
    assert [ends for _, ends in whole] == [False] * 7 + [True]
    assert [text for text, ends in pieces(where, "paragraph") if ends] == [
        "to be: that\n",
        "is the question\n",
        "nobler\n",
    ]
    assert list(pieces(where, "line")) == [(line, True) for line in LINES if line]


def test_text_is_held_out_to_the_character(play: Path) -> None:
    text = play.read_text("utf-8")
    config = data(play, hold_out=0.3)
    tokenizer = texts.tokenizer_for(config, play.parent)
    border = int(len(text) * 0.7)
    held, ids = texts.held_out(config, tokenizer), texts.ids_for(config, tokenizer, play.parent)
    assert held is not None
    assert held.ids.tolist() == [END, *tokenizer.encode([text[border:]])[0], END]
    assert (held.characters, tokenizer.decode(ids.tolist())) == (len(text) - border, text[:border])
    assert texts.tokenizer_for(config, play.parent).vocabulary == tokenizer.vocabulary


@pytest.mark.parametrize("kind", ["gpt", "recurrent"])
@torch.no_grad()
def test_every_token_is_counted_once(kind: str, play: Path) -> None:
    """A context as long as the text, so that both kinds of model see all that came before."""
    tokenizer = texts.tokenizer_for(data(play), play.parent)
    held = texts.text_of(tokenizer, list(pieces([RunningText(file=str(play))], "file")))
    model, longest = small(tokenizer.vocabulary, kind), len(held.ids)
    row = torch.from_numpy(held.ids)[None]
    told = model(row[:, :-1]).log_softmax(-1).gather(2, row[:, 1:, None])[0, :, 0]
    options: dict[str, Any] = dict(batch_tokens=64, apart=False, carry=kind == "recurrent")
    task = LanguageModelling(tokenizer, held.ids, held, context=longest, **options)
    found = task.evaluate(model, None)  # type: ignore[arg-type]
    assert found["loss"] == pytest.approx(-float(told.mean()), rel=1e-9)
    assert found["per_character"] == pytest.approx(-float(told.sum()) / len(play.read_text("utf-8")), rel=1e-9)
    words = len(play.read_text("utf-8").split()) + len(LINES)
    assert found["word_perplexity"] == pytest.approx(math.exp(-float(told.sum()) / words), rel=1e-9)
    if kind == "gpt":  # windows of 8, each token by brute force
        short = replace_context(task, 8)
        lost = 0.0
        for i in range(1, longest):
            start = 0 if i <= 8 else (-(-(i - 8) // 4)) * 4
            lost -= float(model(row[:, start:i]).log_softmax(-1)[0, -1, row[0, i]])
        assert nats_of(short, model) == pytest.approx(lost, rel=1e-9)


def nats_of(task: LanguageModelling, model: Any) -> float:
    """Lost on all ids but the first."""
    assert task.held is not None
    return task.score(model, task.held)["loss"] * (len(task.held.ids) - 1)


def replace_context(task: LanguageModelling, context: int) -> LanguageModelling:
    options: dict[str, Any] = dict(batch_tokens=24, apart=task.apart, carry=task.carry)
    return LanguageModelling(task.tokenizer, task.ids, task.held, context=context, **options)


@torch.no_grad()
def test_documents_apart_cost_what_they_cost_alone(play: Path) -> None:
    config = data(play, documents="line")
    tokenizer = texts.tokenizer_for(config, play.parent)
    model, held = small(tokenizer.vocabulary, "gpt"), texts.text_of(tokenizer, list(pieces(config.train, "line")))
    options: dict[str, Any] = dict(batch_tokens=999, context=len(held.ids), carry=False)
    task = LanguageModelling(tokenizer, held.ids, held, apart=True, **options)
    alone = 0.0
    for text in filter(None, LINES):
        ids = np.array([END, *tokenizer.encode([text])[0], END])
        own = LanguageModelling(tokenizer, ids, Text(ids, 10**6, 10**6), apart=False, **options)
        alone += nats_of(own, model)
    assert nats_of(task, model) == pytest.approx(alone, rel=1e-9)


def test_batches_are_a_function_of_seed_and_epoch_and_cover_the_text(play: Path) -> None:
    ids = np.arange(1000)
    tokenizer = texts.tokenizer_for(data(play), play.parent)
    task = LanguageModelling(tokenizer, ids, None, context=10, batch_tokens=40, apart=False, carry=False)
    one, again, other = (task.batches(1, epoch) for epoch in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert len(one) == len(other)
    assert not all((a == b).all() for a, b in zip(one, other, strict=True))
    seen = np.unique(np.concatenate([task.load(name).tokens.flatten().numpy() for name in one]))
    assert len(seen) > 950
    carried = LanguageModelling(tokenizer, ids, None, context=10, batch_tokens=40, apart=False, carry=True)
    first, second = (carried.load(name) for name in carried.batches(0, 0)[:2])
    assert (first.first, second.first) == (True, False)
    assert torch.equal(first.tokens[:, -1], second.tokens[:, 0])


def recipe(play: Path, **model: Any) -> Path:
    path = play.parent / "recipe.yaml"
    content = {
        "task": "lm",
        "data": {"train": [{"file": str(play)}], "hold_out": 0.2, "context": 8, "tokenizer": {"kind": "characters"}},
        "model": model,
        "train": {"steps": 60, "batch_tokens": 32, "evaluations": 3, "checkpoints": 6},
    }
    path.write_text(json.dumps(content), "utf-8")
    return path


MODELS: dict[str, dict[str, Any]] = {
    "gpt": {"width": 8, "hidden": 8, "num_heads": 2, "num_layers": 1},
    "lstm": {"kind": "recurrent_text", "width": 8, "embedding": 8, "dropout": 0.1},
}


@pytest.mark.parametrize("kind", MODELS)
def test_trains_and_goes_on_to_the_same_weights(kind: str, play: Path) -> None:
    play.write_text("\n".join(LINES * 12), "utf-8")
    path, whole, cut = recipe(play, **MODELS[kind]), play.parent / "whole", play.parent / "cut"
    told = regard("train", path, "--out", whole, "--threads", "1").stderr.decode()
    assert re.search(" texts.* 8 ", told)
    assert re.search(rf"loss.* step .*{whole}", told)
    regard("train", path, "--out", cut, "--threads", "1")
    for checkpoint in sorted((cut / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))[-1:]:
        for file in checkpoint.iterdir():  # as if the last had never been written
            file.unlink()
        checkpoint.rmdir()
    again = regard("train", path, "--out", cut, "--threads", "1").stderr.decode()
    assert "step 50" in again
    newest = "checkpoints/step-60"
    files = ["model.safetensors", "optimizer.safetensors", *(["carry.safetensors"] if kind == "lstm" else [])]
    for name in files:
        assert (whole / newest / name).read_bytes() == (cut / newest / name).read_bytes()


def test_settings_that_contradict_each_other(play: Path) -> None:
    with pytest.raises(UserError, match="file a .*corpus b"):
        RunningText(file="a", corpus="b")
    config = data(play, context=4000)
    tokenizer = texts.tokenizer_for(config, play.parent)
    with pytest.raises(UserError, match="tokens .*context .*4000"):
        texts.ids_for(config, tokenizer, play.parent)
    path = recipe(play, **MODELS["lstm"])
    told = regard("train", path, "--set", "data.separate_documents=true", code=2).stderr.decode()
    assert re.search(r"data\.separate_documents.*recurrent", told)
