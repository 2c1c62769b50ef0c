"""Stops, damaged files and changed data: a run ends with the same bits, or says what is wrong and how to go on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from regard.data.store import Store
from regard.errors import StoppedError, UserError
from regard.tasks.config import TrainConfig
from regard.training.checkpoint import TrainState, Weights, steps_in
from regard.training.loop import Trainer
from regard.training.optimizer import Optimizer
from regard.training.plan import Plan
from tests.cli.reading import regard
from tests.training.test_resume import ends
from tests.training.toy import write_recipe

Stop = Callable[[int], None]


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Have SIGTERM come while an update is made, as a batch system sends it."""
    update = Trainer.update
    at: list[int] = []

    def updated(self: Trainer, weights: Weights, step: int, plan: Plan | None = None, asked: object = ()) -> object:
        if plan is not None and step + 1 in at:
            at.remove(step + 1)
            os.kill(os.getpid(), signal.SIGTERM)
        return update(self, weights, step, plan, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "update", updated)
    return at.append


def stopped(*arguments: object) -> None:
    with pytest.raises(StoppedError) as stop:
        regard(*arguments)
    assert stop.value.exit_code == 128 + signal.SIGTERM


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def test_a_mean_is_of_planned_checkpoints_whenever_the_run_was_stopped(tmp_path: Path, stop_at: Stop) -> None:
    recipe, out = write_recipe(tmp_path, average=3), tmp_path / "run"
    regard("train", recipe, "--out", tmp_path / "whole")
    for step in (2, 13, 31, 36, 38):  # planned are 5, 10 .. 40
        stop_at(step)
        stopped("train", recipe, "--out", out)
        assert steps_in(out / "checkpoints")[-1].name == f"step-{step}"
    regard("train", recipe, "--out", out)
    assert ends(out) == ends(tmp_path / "whole")
    assert '"averaged": 3' in (out / "metrics.jsonl").read_text("utf-8").splitlines()[-1]


def test_a_damaged_checkpoint_does_not_enter_a_mean(tmp_path: Path, stop_at: Stop) -> None:
    recipe, out = write_recipe(tmp_path, average=3), tmp_path / "run"
    stop_at(38)
    stopped("train", recipe, "--out", out)
    flip(out / "checkpoints" / "step-35" / "model.safetensors", -2, 6)
    with pytest.raises(UserError, match=r"step-35.*model\.safetensors.*train\.average"):
        regard("train", recipe, "--out", out)
    _, messages = regard("train", recipe, "--out", out, "--continue", "--set", "train.average=0")
    assert any("step 40" in line and "best" not in line for line in messages.splitlines())


def test_weights_that_are_not_finite_are_never_kept(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    weights = Weights(model, Optimizer(model, TrainConfig(steps=1, optimizer="adam")), None)
    weights.save(tmp_path, TrainState(step=1))
    with torch.no_grad():
        model.bias[1] = torch.inf
    with pytest.raises(UserError, match=r"\bbias .*step 2 .*train\.lr"):
        weights.save(tmp_path, TrainState(step=2))
    assert [path.name for path in steps_in(tmp_path)] == ["step-1"]


def holding_out(folder: Path, share: float = 0.2, **train: object) -> Path:
    """As `write_recipe`, with pairs held out to validate on."""
    path = write_recipe(folder, **train)
    content = json.loads(path.read_text("utf-8"))
    del content["data"]["valid"]
    content["data"] |= {"hold_out": share, "target_tokenizer": content["data"]["tokenizer"]}
    content["model"]["tied"] = "none"
    path.write_text(json.dumps(content), "utf-8")
    return path


class KilledError(Exception):
    """Stands for the end of a process."""


def unplanned(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """A run that is killed before its first plan."""
    with monkeypatch.context() as patch:
        patch.setattr("regard.training.launch.make_plan", Mock(side_effect=KilledError))
        with pytest.raises(KilledError):
            regard(*arguments)


def test_a_recipe_changed_before_the_first_plan_holds_out_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, out = holding_out(tmp_path, steps=3), tmp_path / "run"
    unplanned(monkeypatch, "train", recipe, "--out", out)
    first = (out / "valid.source").read_bytes().splitlines()
    assert not (out / "plan.json").exists()
    regard("train", recipe, "--out", out, "--set", "data.hold_out=0.4")
    second = (out / "valid.source").read_bytes().splitlines()
    assert len(second) > len(first)
    assert len(second) + len(Store.open(out / "store")) == 180


def test_a_run_that_continues_with_other_data_validates_on_them(tmp_path: Path) -> None:
    recipe, out = holding_out(tmp_path, steps=3), tmp_path / "run"
    regard("train", recipe, "--out", out)
    for side in ("src", "tgt"):
        path = tmp_path / f"train.{side}"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:90]))
    with pytest.raises(UserError, match=r"(?s)/run .*/train\.src .*/train\.tgt .*`goes_on`"):
        regard("train", recipe, "--out", out)
    _, messages = regard("train", recipe, "--out", out, "--continue", "--set", "train.steps=5")
    assert "train.src" in messages
    assert len((out / "valid.source").read_bytes().splitlines()) + len(Store.open(out / "store")) == 90
    regard("train", recipe, "--out", out, "--set", "train.steps=5")  # they are its data now


@pytest.mark.parametrize("name", ["train.tgt", "valid.src"])
def test_data_that_changed_are_named_before_anything_is_trained(name: str, tmp_path: Path, stop_at: Stop) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "run"
    stop_at(13)
    stopped("train", recipe, "--out", out)
    before = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(before.replace(b"rot", b"rosa", 1))
    with pytest.raises(UserError, match=f"/{name} "):
        regard("train", recipe, "--out", out)
    (tmp_path / name).write_bytes(before)
    _, messages = regard("train", recipe, "--out", out)
    assert "step 13" in messages


def test_a_base_that_changed_is_named(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=2, evaluations=1, checkpoints=1)
    base, out = tmp_path / "base", tmp_path / "run"
    regard("train", recipe, "--out", base)
    regard("train", recipe, "--out", out, "--from", base)
    flip(base / "model.safetensors", -3)
    with pytest.raises(UserError, match=r"/base/model\.safetensors "):
        regard("train", recipe, "--out", out, "--from", base)


def test_a_run_killed_between_its_two_tokenizers_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, out = holding_out(tmp_path, steps=3), tmp_path / "run"
    unplanned(monkeypatch, "train", recipe, "--out", out)
    before = (out / "tokenizer-target.json").read_bytes()
    (out / "tokenizer-target.json").unlink()
    regard("train", recipe, "--out", out)
    assert (out / "tokenizer-target.json").read_bytes() == before


def test_every_flip_in_a_plan_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = Plan(steps=60, threads=1, torch="2", machine="x", parameters=9, flops=(1.0, 2.5))
    plan.save(path)
    whole, noticed = path.read_bytes(), 0
    for place in range(len(whole)):
        path.write_bytes(whole)
        flip(path, place, place % 8)
        try:
            assert Plan.load(path) == plan
        except UserError as error:
            noticed += 1
            assert "plan.json" in str(error)  # noqa: PT017
    assert noticed > 200


def test_a_plan_of_an_earlier_version_has_no_sum(tmp_path: Path) -> None:
    plan = Plan(steps=60, threads=1, torch="2", machine="x", parameters=9, flops=(1.0, 2.5))
    plan.save(tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_bytes())
    del content["sha256"]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    assert Plan.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(f"store/{name}", marks=pytest.mark.full) for name in ("target.tokens", "source.offsets")),
        "store/index.json",
        "valid.target",
    ],
)
def test_what_was_prepared_is_made_again_if_it_was_damaged(name: str, tmp_path: Path, stop_at: Stop) -> None:
    recipe, out = holding_out(tmp_path, steps=12, evaluations=2, checkpoints=3), tmp_path / "run"
    stop_at(7)
    stopped("train", recipe, "--out", out)
    before = (out / name).read_bytes()
    flip(out / name, len(before) // 2, 1)
    regard("train", recipe, "--out", out)
    assert (out / name).read_bytes() == before
    regard("train", recipe, "--out", tmp_path / "whole")
    assert ends(out) == ends(tmp_path / "whole")


def test_a_damaged_log_stops_nothing_and_is_told(tmp_path: Path, stop_at: Stop) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "run"
    stop_at(33)
    stopped("train", recipe, "--out", out)
    for place in np.random.default_rng(0).integers(0, (out / "metrics.jsonl").stat().st_size, 5):
        flip(out / "metrics.jsonl", int(place), 7)
    _, messages = regard("train", recipe, "--out", out)
    assert "metrics.jsonl" in messages
    assert "A transformer" in (out / "README.md").read_text("utf-8")
    assert "<svg" in (out / "curve.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("config.json", b'"size": 2', b'"size": 3', "config.json.*sha256"),
        ("tokenizer.json", b'"rosa"', b'"rota"', "tokenizer.json.*sha256"),
        ("model.safetensors", None, None, "model.safetensors.*sha256"),
    ],
)
def test_a_model_with_one_other_byte_is_not_run(
    name: str, old: bytes | None, new: bytes, message: str, tmp_path: Path
) -> None:
    recipe, out = write_recipe(tmp_path, steps=2, evaluations=1, checkpoints=1), tmp_path / "run"
    regard("train", recipe, "--out", out)
    whole, (said, _) = (out / name).read_bytes(), regard("run", out, stdin=b"rot\n")
    if old is None:
        flip(out / name, -100)
    else:
        assert old in whole
        (out / name).write_bytes(whole.replace(old, new))
    with pytest.raises(UserError, match=message):
        regard("run", out, stdin=b"rot\n")
    if name == "config.json":  # one's own change, of a file without its sum, is taken
        content = json.loads((out / name).read_bytes())
        del content["sha256"]
        (out / name).write_text(json.dumps(content))
        assert regard("run", out, stdin=b"rot\n")[0].count("\n") == said.count("\n")
