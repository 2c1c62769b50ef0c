"""Killed at any instant and resumed, a run ends with the same bits."""

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

from regard import load
from regard.rng import Key
from regard.training.checkpoint import steps_in
from tests.training.toy import regard, start, write_recipe


def finish(recipe: Path, out: Path) -> None:
    regard("train", recipe, "--out", out)


def ends(out: Path) -> tuple[bytes, bytes, bytes, list[str]]:
    """All that must be equal: best weights, last weights, last moments, and the log but for its seconds."""
    last = steps_in(out / "checkpoints")[-1]
    log = [
        ", ".join(part for part in line.split(", ") if not part.startswith('"seconds"'))
        for line in (out / "metrics.jsonl").read_text("utf-8", "replace").splitlines()
    ]
    files = (out / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors")
    one, two, three = (path.read_bytes() for path in files)
    return one, two, three, log


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="plain"),
        pytest.param({"accumulate": 2, "average": 0.9, "clip": 0.5}, id="averaged", marks=pytest.mark.full),
        pytest.param({"average": 3}, id="mean"),
    ],
)
def test_kills_at_random_instants_change_nothing(settings: dict[str, object], tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **settings)
    finish(recipe, tmp_path / "whole")
    draw = Key(1, ("kills", *settings)).generator()
    began = time.monotonic()
    finish(recipe, tmp_path / "timed")
    seconds = time.monotonic() - began
    out = tmp_path / "killed"
    for kill in range(3):
        process = start(tmp_path / f"kill-{kill}", "train", recipe, "--out", out)
        time.sleep(seconds * float(draw.uniform(0.1, 0.98)))
        process.kill()
        process.wait()
    finish(recipe, out)
    assert ends(out) == ends(tmp_path / "whole") == ends(tmp_path / "timed")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_say_so(signum: signal.Signals, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4000, checkpoints=1, evaluations=1)
    out = tmp_path / "run"
    process = start(tmp_path, "train", recipe, "--out", out)
    process.wait_for(b"parameters")
    time.sleep(0.5)
    process.kill(signum)
    assert process.wait() == 128 + signum
    said = process.read("stderr").decode()
    assert re.search(rf"{signum.name}.* step \d+", said)
    assert "Traceback" not in said
    (checkpoint,) = steps_in(out / "checkpoints")
    assert load_file(checkpoint / "model.safetensors")


def test_a_damaged_checkpoint_is_passed_over(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "damaged"
    shutil.copytree(toy / "run", out)
    last = steps_in(out / "checkpoints")[-1] / "model.safetensors"
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    said = regard("train", toy / "toy.yaml", "--out", out).stderr.decode()
    assert re.search(f"{last.parent.name}.*{last.name}", said)
    assert ends(out) == ends(toy / "run")


def test_a_finished_run_has_nothing_more_to_do(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(toy / "run", out)
    before = ends(out)
    assert re.search(r"best .* step \d+", regard("train", toy / "toy.yaml", "--out", out).stderr.decode())
    assert ends(out) == before


def test_another_recipe_in_the_same_folder_is_refused_with_the_difference(toy: Path) -> None:
    said = regard("train", toy / "toy.yaml", "--out", toy / "run", "--set", "train.lr=0.001", code=2).stderr.decode()
    assert "train.lr: 0.005 -> 0.001" in said
    assert "--out" in said


def test_the_mean_of_the_last_checkpoints_is_evaluated_and_kept_if_better(tmp_path: Path) -> None:
    out = tmp_path / "run"
    regard("train", write_recipe(tmp_path, average=3, schedule="constant"), "--out", out)
    kept = [load_file(path / "model.safetensors") for path in steps_in(out / "checkpoints")]
    assert len(kept) == 3
    last, mean = (json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()[-2:])
    assert mean["averaged"] == 3
    assert last["step"] == mean["step"]
    assert mean["valid_loss"] != last["valid_loss"]
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    state = json.loads((out / "config.json").read_text("utf-8"))["metrics"]
    assert ("averaged" in state) == (mean["bleu"] > max(entry["bleu"] for entry in entries[:-1]))
    averaged = {name: sum(part[name] for part in kept) / 3 for name in kept[0]}
    model = load(out)
    model.model.load_state_dict({name: torch.from_numpy(value) for name, value in averaged.items()}, strict=False)
    found, tokens = model.score(
        *((tmp_path / f"valid.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt"))
    )
    assert mean["valid_loss"] == pytest.approx(-found.sum() / tokens, rel=1e-5)
    for average in (1.0, 2.5, 9):
        recipe = write_recipe(tmp_path, average=average)
        assert "average" in regard("train", recipe, "--out", tmp_path / "x", code=2).stderr.decode()
