"""Several processes train as one does, and survive the death of any."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.train.checkpoint import steps_in
from regard.train.loop import _scale
from tests.train.shares import losses
from tests.train.test_resume import ends
from tests.train.toy import WORDS, command, regard, write_recipe

TWO = ("--processes", "2")


def text_recipe(folder: Path, cell: str | None, steps: int = 30) -> Path:
    """A little language model; with a cell, one that carries its state on."""
    draw = np.random.default_rng(0)
    text = "\n".join(" ".join(WORDS[i] for i in draw.integers(0, 8, 6)) for _ in range(80))
    (folder / "text.txt").write_text(text, "utf-8")
    small = {"width": 8, "embedding": 8, "num_layers": 1} if cell else {"width": 8, "hidden": 8, "num_heads": 2}
    recipe = {
        "task": "language",
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


def test_two_and_three_processes_lose_what_one_does(tmp_path: Path) -> None:
    """In float64 only the order of sums differs; rows that do not divide evenly, and batches of one row, are there."""
    recipe = without_dropout(tmp_path, accumulate=2)
    alone = losses(recipe, 50, 1)
    for size in (2, 3):
        np.testing.assert_allclose(losses(recipe, 50, size), alone, rtol=0, atol=1e-8)
    assert alone[-1] < alone[0]


@pytest.mark.parametrize("cell", [None, "lstm"])
def test_language_models_are_shared_too_with_the_state_they_carry(cell: str | None, tmp_path: Path) -> None:
    recipe = text_recipe(tmp_path, cell)
    alone = losses(recipe, 50, 1)
    np.testing.assert_allclose(losses(recipe, 50, 2), alone, rtol=0, atol=1e-8)


def companions_of(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def begin(recipe: Path, out: Path) -> subprocess.Popen[bytes]:
    """A run of two processes that has come to train."""
    process = subprocess.Popen(command("train", recipe, "--out", out, *TWO), stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"parameters" not in process.stderr.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize("kind", ["translation", pytest.param("carried", marks=pytest.mark.full)])
def test_the_death_of_either_process_changes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    recipe = write_recipe(tmp_path, steps=120) if kind == "translation" else text_recipe(tmp_path, "lstm", steps=120)
    regard("train", recipe, "--out", tmp_path / "whole", *TWO)
    for victim in ("leading", "companion"):
        with begin(recipe, out := tmp_path / victim) as process:
            (companion,) = companions_of(process)
            while not steps_in(out / "checkpoints"):
                time.sleep(0.01)
            os.kill(process.pid if victim == "leading" else companion, signal.SIGKILL)
            assert process.stderr is not None
            said = process.stderr.read().decode()
        if victim == "companion":
            assert process.returncode == 1
            assert "another process of this run has died; run the same command to go on" in said
        assert "Traceback" not in said
        wait_for_the_end_of(companion)
        regard("train", recipe, "--out", out, *TWO)
        assert ends(out) == ends(tmp_path / "whole")
        assert not [*out.glob(".meeting-*"), *(tmp_path / "temporary").glob("regard-*")], "a kill leaves nothing behind"


def wait_for_the_end_of(companion: int) -> None:
    for _ in range(300):
        if not Path(f"/proc/{companion}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the companion lives on")


def test_a_signal_to_the_leading_process_stops_all_and_saves(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4000, checkpoints=1, evaluations=1)
    with begin(recipe, out := tmp_path / "run") as process:
        (companion,) = companions_of(process)
        assert process.stderr is not None
        while b"loss" not in process.stderr.readline():  # until the first update, a signal kills at once
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read().decode()
    assert process.returncode == 128 + signal.SIGTERM
    assert "everything is saved" in said
    assert len(steps_in(out / "checkpoints")) == 1
    wait_for_the_end_of(companion)


def test_torchrun_gives_the_same_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    regard("train", recipe, "--out", tmp_path / "own", *TWO)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python"]
    theirs = command("train", recipe, "--out", tmp_path / "theirs")
    done = subprocess.run([*launcher, *theirs], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert ends(tmp_path / "theirs") == ends(tmp_path / "own")


def test_a_plan_for_two_is_not_taken_up_by_three(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    regard("train", recipe, "--out", tmp_path / "run", *TWO)
    said = regard("train", recipe, "--out", tmp_path / "run", "--processes", "3")
    assert b"finished" in said.stderr  # what was planned holds


def test_no_process_at_all_is_refused(tmp_path: Path) -> None:
    said = regard("train", write_recipe(tmp_path), "--processes", "0", code=2)
    assert b"--processes 0 cannot work; use 1 or more" in said.stderr


def test_gradients_become_a_mean_and_are_clipped_as_one() -> None:
    whole = torch.arange(1.0, 7.0)
    gradients = [whole[:2].clone(), whole[2:].clone().view(2, 2)]
    _scale(gradients, 2.0, 0.5)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole * 0.5 / whole.norm())
    _scale(gradients, 4.0, 0.6)  # short enough, so only a mean
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole * 0.5 / whole.norm() / 4)
    _scale(gradients, 0.125, 0.0)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), whole / whole.norm())
