"""Both ways: windows by hand, losses token by token, a run by the command line, and what such a model refuses."""

import json
import re
import shutil
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models

import regard as toolkit
from regard.data.config import TokenizerConfig
from regard.data.tokenizer import END, PADDING, START, ForeignTokenizer, Tokenizer
from regard.errors import UserError
from regard.exchange.export import export
from regard.models.build import build
from regard.models.config import ElmoConfig
from regard.rng import Key
from regard.serve.worker import described
from regard.shapes import Padded
from regard.tasks.bilm.task import BothWays, framed, tell_both_ways
from regard.tasks.folder import load_folder
from regard.tasks.lm.task import Text
from regard.tasks.registry import read_recipe
from tests.training.toy import regard

WORDS = Tokenizer.train(iter([" ".join(f"w{i}" for i in range(30))]), TokenizerConfig(kind="words", vocabulary=60), [])
IDS = np.random.default_rng(0).integers(4, WORDS.vocabulary, 97).astype(np.uint16)


def task_of(ids: Any = IDS, **settings: Any) -> BothWays:
    return BothWays(WORDS, ids, Text(np.array([END, *ids]), 1, 1), **{"context": 12, "batch_tokens": 60, **settings})


def small(task: BothWays, **settings: Any) -> Any:
    return build(ElmoConfig(embedding=6, width=7, **settings).sized(*task.sizes)).double()


def test_a_window_stands_between_marks_and_the_last_is_as_long_as_it_is() -> None:
    texts = framed(IDS, np.array([0, 90]), 12, START, END)
    assert texts.tokens[0].tolist() == [START, *IDS[:10], END]
    assert texts.tokens[1].tolist() == [START, *IDS[90:], END, PADDING, PADDING, PADDING]
    assert texts.lengths.tolist() == [12, 9]


def test_batches_are_a_function_of_seed_and_epoch_and_cover_the_text() -> None:
    task = task_of(np.arange(4, 1004))
    assert task.sizes == (WORDS.vocabulary, START, END, 12)
    one, again, other = (task.batches(1, epoch) for epoch in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert len(one) == len(other)
    assert not all((a == b).all() for a, b in zip(one, other, strict=True))
    loaded = [task.load(name) for name in one]
    assert {(len(texts), *texts.lengths.tolist()) for texts in loaded} == {(5, *[12] * 5)}
    seen = np.unique(np.concatenate([texts.tokens[:, 1:-1].flatten().numpy() for texts in loaded]))
    assert len(seen) == 10 * 5 * len(one) >= 950  # none twice


@pytest.mark.parametrize(("controls", "marks"), [({0: "[SEP]", 1: "[CLS]"}, (1, 0)), ({2: "<|endoftext|>"}, (2, 2))])
def test_another_s_tokenizer_has_marks_of_its_own(controls: dict[int, str], marks: tuple[int, int]) -> None:
    library = Library(models.WordPiece({"a": 3, "[UNK]": 4, **{name: i for i, name in controls.items()}}))
    task = BothWays(ForeignTokenizer(json.loads(library.to_str()), controls, 5), IDS, None, context=9, batch_tokens=9)
    assert task.sizes == (5, *marks, 9)


@torch.no_grad()
def nats_by_hand(model: Any, rows: list[list[int]]) -> tuple[float, float, int]:
    """Token after token, each from a text that ends before it, and from one that begins after it."""
    forward, backward, count = 0.0, 0.0, 0
    for row in rows:
        for t in range(1, len(row) - 1):
            before, after = model.both(Padded.of([row[:t]]))[0][0, -1], model.both(Padded.of([row[t + 1 :]]))[1][0, 0]
            forward -= float(model.head(before).log_softmax(-1)[row[t]])
            backward -= float(model.head(after).log_softmax(-1)[row[t]])
            count += 1
    return forward, backward, count


def test_losses_and_metrics_by_brute_force() -> None:
    task = task_of()
    model = small(task, dropout=0.3)
    batch = task.load(task.batches(0, 0)[0])
    found = task.loss(model, batch, None, None)
    forward, backward, count = nats_by_hand(model, batch.lists())
    assert (found.weight, count) == (100.0, 50)
    assert float(found.total.detach()) == pytest.approx(forward + backward, rel=1e-9)
    one, again, other = (float(task.loss(model, batch, None, Key(0, (n,))).total.detach()) for n in (1, 1, 2))
    assert one == again != other
    windows = [[START, *IDS[at : at + 10].tolist(), END] for at in range(0, 97, 10)]
    forward, backward, count = nats_by_hand(model, windows)
    assert count == 97
    wanted = {"loss": (forward + backward) / 194, "forward": forward / 97, "backward": backward / 97}
    assert task.evaluate(model, None) == pytest.approx(wanted, rel=1e-9)  # type: ignore[arg-type]
    assert tell_both_ways(model, IDS, 12, rows=3) == pytest.approx(wanted, rel=1e-9)


ANIMALS = {"dog": "barks", "cat": "purrs", "cow": "moos", "pig": "grunts", "owl": "hoots"}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Who says what, in any order."""
    draw, names = np.random.default_rng(1), list(ANIMALS)
    path = tmp_path_factory.mktemp("story") / "story.txt"
    told = [names[i] for i in draw.integers(0, 5, 400)]
    path.write_text("".join(f"the {name} {ANIMALS[name]} . " for name in told), "utf-8")
    return path


@pytest.fixture(scope="module")
def recipe(story: Path) -> Path:
    path = story.parent / "recipe.yaml"
    tokenizer = {"kind": "words", "vocabulary": 30}
    content = {
        "task": "bilm",
        "data": {"train": [{"file": str(story)}], "hold_out": 0.1, "context": 16, "tokenizer": tokenizer},
        "model": {"embedding": 12, "width": 16, "dropout": 0.05},
        "train": {"steps": 120, "batch_tokens": 256, "evaluations": 3, "checkpoints": 6, "lr": 0.02},
    }
    path.write_text(json.dumps(content), "utf-8")
    return path


@pytest.fixture(scope="module")
def trained(recipe: Path) -> Path:
    out = recipe.parent / "run"
    told = regard("train", recipe, "--out", out, "--threads", "1").stderr.decode()
    assert re.search(" 16 texts.* 16 ", told)
    assert "backward" in told
    return out


def test_it_learns_more_than_how_often_words_come(story: Path, trained: Path) -> None:
    counts = Counter(story.read_text("utf-8").split())
    total = sum(counts.values())
    unigrams = -sum(n / total * log(n / total) for n in counts.values())
    metrics = json.loads((trained / "config.json").read_text("utf-8"))["metrics"]
    assert max(metrics["forward"], metrics["backward"]) < unigrams / 2
    assert metrics["loss"] > log(5) / 4  # which animal it is cannot be known from one side
    assert "vectors" in (trained / "README.md").read_text("utf-8")


def test_a_run_that_was_cut_ends_with_the_same_bits(recipe: Path, trained: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(trained, cut)
    shutil.rmtree(cut / "checkpoints" / "step-120")  # as if it had never been written
    assert "step 100" in regard("train", recipe, "--out", cut, "--threads", "1").stderr.decode()
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints/step-120") / name
        assert (trained / last).read_bytes() == (cut / last).read_bytes()


def test_vectors_come_by_the_command_line_and_nothing_else_does(story: Path, trained: Path) -> None:
    lines = ["the owl hoots .", "", "the [MASK] moos . the dog barks ."]
    said = regard("run", trained, "--vectors", stdin="".join(f"{line}\n" for line in lines).encode()).stdout
    found = torch.tensor([json.loads(line) for line in said.decode().splitlines()])
    model = toolkit.load(trained)
    for vector, line in zip(found, lines, strict=True):
        ids = [START, *(model.tokenizer.encode([line])[0] if line else []), END]  # a blank is a text like any other
        mean = model.model(Padded.of([ids]))[0].mean(0)
        assert torch.allclose(vector, mean / mean.norm(), atol=1e-5)
    assert found.shape == (3, 32)
    told = regard("run", trained, stdin=b"the [MASK] moos .\n", code=2).stderr.decode()
    assert "--vectors" in told
    assert "[MASK]" not in told, "how blanks are written"
    told = regard("run", trained, "--prompt", "the", code=2).stderr.decode()
    assert re.search("--prompt", told)


def test_a_text_is_evaluated_as_in_training(story: Path, trained: Path) -> None:
    text, held = story.read_text("utf-8"), story.parent / "held.txt"
    held.write_text(text[int(len(text) * 0.9) :], "utf-8")
    found = json.loads(regard("evaluate", trained, "--text", held, "--json").stdout)
    kept = json.loads((trained / "config.json").read_text("utf-8"))["metrics"]
    assert {name: found[name] for name in ("loss", "forward", "backward")} == pytest.approx(
        {name: kept[name] for name in ("loss", "forward", "backward")}, 1e-5
    )


def test_what_it_cannot_do_is_told_kindly(trained: Path, tmp_path: Path) -> None:
    model = toolkit.load(trained)
    with pytest.raises(UserError, match="attention"):
        model.attend("the owl hoots .")
    with pytest.raises(UserError, match="`vectors`"):
        model("the [MASK] hoots .")
    with pytest.raises(UserError, match="`vectors`"):
        model.logits([5, 6])
    assert described(model)["options"] == {"vectors": True}
    for kind, told in {"huggingface": "elmo.*`to` onnx", "onnx": "Elmo ", "ctranslate2": "kind: elmo"}.items():
        with pytest.raises(UserError, match=told):
            export(load_folder(trained), kind, tmp_path / kind, [])
    with pytest.raises(UserError, match="kind: elmo"):
        load_folder(trained).native()


def test_settings_that_contradict_each_other(recipe: Path) -> None:
    for setting, told in {
        "data.separate_documents=true": r"data\.separate_documents",
        "data.context=2": r"data\.context 2 .* 3 ",
    }.items():
        with pytest.raises(UserError, match=told):
            read_recipe(recipe, [setting])
