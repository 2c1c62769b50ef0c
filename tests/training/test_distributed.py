"""Several processes train as one does, and survive the death of any."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.training.checkpoint import steps_in
from regard.training.loop import _scale
from tests.forked import Process, children, wait_for_the_end_of
from tests.training.shares import losses
from tests.training.test_resume import ends
from tests.training.toy import WORDS, command, regard, start, write_recipe

TWO = ("--processes", "2")


def text_recipe(folder: Path, cell: str | None, steps: int = 30) -> Path:
    """A little language model; with a cell, one that carries its state on."""
    draw = np.random.default_rng(0)
    text = "\n".join(" ".join(WORDS[i] for i in draw.integers(0, 8, 6)) for _ in range(80))
    (folder / "text.txt").write_text(text, "utf-8")
    small = {"width": 8, "embedding": 8, "num_layers": 1} if cell else {"width": 8, "hidden": 8, "num_heads": 2}
    recipe = {
        "task": "lm",
        "data": {
            "train": [{"file": str(folder / "text.txt")}],
            "hold_out": 0.1,
            "context": 4,
            "tokenizer": {"kind": "words", "vocabulary": 20},
        },
        "model": {"kind": "recurrent_text", "cell": cell, **small} if cell else {"kind": "gpt", **small},
        "train": {"steps": steps, "batch_tokens": 20, "evaluations": 1, "checkpoints": 3},
    }
    recipe["model"]["dropout"] = 0.0  # type: ignore[index]
    path = folder / "text.yaml"
    path.write_text(json.dumps(recipe), "utf-8")
    return path


def without_dropout(folder: Path, **train: object) -> Path:
    path = write_recipe(folder, **train)
    recipe = json.loads(path.read_text("utf-8"))
    recipe["model"]["dropout"] = 0.0
    path.write_text(json.dumps(recipe), "utf-8")
    return path


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.full)])
def test_two_and_three_processes_lose_what_one_does(size: int, tmp_path: Path) -> None:
    """In float64 only the order of sums differs; rows that do not divide evenly, and batches of one row, are there."""
    recipes = [without_dropout(tmp_path / "pairs", accumulate=2)]
    for cell in (None, "lstm"):  # models of text too, with the state that they carry
        (folder := tmp_path / str(cell)).mkdir()
        recipes.append(text_recipe(folder, cell))
    alone = losses(recipes, 30, 1)
    for told, expected in zip(losses(recipes, 30, size), alone, strict=True):
        np.testing.assert_allclose(told, expected, rtol=0, atol=1e-8)
    assert alone[0][-1] < alone[0][0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe, and beside it its run by two processes."""
    recipe = write_recipe(tmp_path_factory.mktemp("whole"))
    regard("train", recipe, "--out", recipe.with_name("whole"), *TWO)
    return recipe


def begin(recipe: Path, out: Path) -> tuple[Process, int]:
    """A run of two processes that has come to train, and its companion."""
    process = start(out.with_name(f"{out.name}-says"), "train", recipe, "--out", out, *TWO)
    process.wait_for(b"parameters")
    (companion,) = children(process.pid)
    return process, companion


@pytest.mark.parametrize("kind", ["translation", pytest.param("carried", marks=pytest.mark.full)])
def test_the_death_of_either_process_changes_nothing(
    kind: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    recipe, expected = whole, whole.with_name("whole")
    if kind == "carried":
        recipe, expected = text_recipe(tmp_path, "lstm", steps=120), tmp_path / "whole"
        regard("train", recipe, "--out", expected, *TWO)
    out, last = tmp_path / "run", steps_in(expected / "checkpoints")[-1]
    for victim in ("leading", "companion"):
        before = steps_in(out / "checkpoints")[-1:]
        process, companion = begin(recipe, out)
        while steps_in(out / "checkpoints")[-1:] == before:
            time.sleep(0.005)
        os.kill(process.pid if victim == "leading" else companion, signal.SIGKILL)
        code, said = process.wait(), process.read("stderr").decode()
        if victim == "companion":
            assert code == 1
            assert re.search(r"\bprocess\b", said)
        assert "Traceback" not in said
        wait_for_the_end_of(companion)
        assert steps_in(out / "checkpoints")[-1].name != last.name, "it was killed too late to tell anything"
    regard("train", recipe, "--out", out, *TWO)
    assert ends(out) == ends(expected)
    assert not [*out.glob(".meeting-*"), *(tmp_path / "temporary").glob("regard-*")], "a kill leaves nothing behind"


def test_a_signal_to_the_leading_process_stops_all_and_saves(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4000, checkpoints=1, evaluations=400)
    process, companion = begin(recipe, out := tmp_path / "run")
    process.wait_for(b"_loss")  # of the first evaluation: until the first update, a signal kills at once
    process.kill(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert "SIGTERM" in process.read("stderr").decode()
    assert len(steps_in(out / "checkpoints")) == 1
    wait_for_the_end_of(companion)


@pytest.mark.full
def test_torchrun_gives_the_same_run(whole: Path, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python"]
    theirs = command("train", whole, "--out", tmp_path / "theirs")
    done = subprocess.run([*launcher, *theirs], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert ends(tmp_path / "theirs") == ends(whole.with_name("whole"))


def test_a_plan_for_two_is_not_taken_up_by_three(whole: Path) -> None:
    said = regard("train", whole, "--out", whole.with_name("whole"), "--processes", "3")
    assert b"--continue" in said.stderr  # what was planned holds


def test_no_process_at_all_is_refused(tmp_path: Path) -> None:
    said = regard("train", write_recipe(tmp_path), "--processes", "0", code=2)
    assert re.search(rb"--processes 0 .*1", said.stderr)


def test_gradients_become_a_mean_and_are_clipped_as_one() -> None:
    whole = torch.arange(1.0, 7.0)
    gradients = [whole[:2].clone(), whole[2:].clone().view(2, 2)]
    _scale(gradients, 2.0, 0.5)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole * 0.5 / whole.norm())
    _scale(gradients, 4.0, 0.6)  # short enough, so only a mean
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole * 0.5 / whole.norm() / 4)
    _scale(gradients, 0.125, 0.0)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole / whole.norm())
