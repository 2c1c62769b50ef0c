"""A run keeps its minutes on a machine that becomes slower or faster, and still ends with the same bits."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.training.checkpoint import steps_in
from regard.training.plan import Plan
from tests.training.timed import KilledError, Pace, Timed, planned, trainer

PLAN = Plan(steps=100, threads=1, torch="", machine="", parameters=0, flops=(0.0,))


@pytest.fixture(autouse=True)
def _own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)  # put back afterwards


def test_without_a_change_an_update_has_its_own_number() -> None:
    assert [PLAN.position(step) for step in (0, 1, 57, 100)] == [0, 1, 57, 100]
    assert (PLAN.end, PLAN.marks(4), replace(PLAN, steps=10).marks(4)) == (100, {25, 50, 75, 100}, {3, 5, 8, 10})
    assert replace(PLAN, steps=3).marks(20) == {1, 2, 3}


@pytest.mark.parametrize("changes", [((40, 70),), ((40, 160),), ((40, 70), (60, 63), (62, 90)), ((99, 150),)])
def test_changes_lead_to_the_same_end_without_a_jump(changes: tuple[tuple[int, int], ...]) -> None:
    plan = replace(PLAN, changes=changes)
    places = [plan.position(step) for step in range(plan.end + 1)]
    assert places[: changes[0][0] + 1] == [*range(changes[0][0] + 1)], "what was before is as it was"
    assert places[-1] == 100
    assert all(a < b for a, b in pairwise(places))
    for first, last in pairwise([0, *(first for first, _ in changes), plan.end]):
        assert np.diff(places[first : last + 1]) == pytest.approx((places[last] - places[first]) / (last - first))
    assert max(plan.marks(7)) == plan.end
    assert {mark for mark in PLAN.marks(20) if mark <= changes[0][0]} <= plan.marks(20)


def test_marks_are_passed_where_their_place_is() -> None:
    plan = replace(PLAN, changes=((40, 70),))  # 60 places in 30 updates
    assert plan.marks(10) == {10, 20, 30, 40, 45, 50, 55, 60, 65, 70}
    assert replace(PLAN, changes=((40, 43),)).marks(10) == {10, 20, 30, 40, 41, 42, 43}


@pytest.mark.parametrize(
    ("pace", "least"),
    [
        pytest.param(lambda now: 0.2, 55.0, id="half as fast"),
        pytest.param(lambda now: 0.1 if now < 30 else 0.2, 55.0, id="slower from the middle on"),
        pytest.param(lambda now: 0.1 if now < 50 else 0.3, 55.0, id="slower at the end"),
        pytest.param(lambda now: 0.05, 50.0, id="twice as fast"),
        pytest.param(lambda now: 0.3 if 20 < now < 30 else 0.1, 50.0, id="slower for a while"),
    ],
)
def test_a_run_ends_within_its_minutes(
    pace: Pace, least: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = Timed(pace, evaluation=5 * pace(0))
    run = trainer(task, tmp_path)
    plan = planned(run.config)
    rates: list[float] = []
    move = run.weights.optimizer.move
    run.weights.optimizer.move = lambda lr, world: (rates.append(lr), move(lr, world))[1]  # type: ignore[method-assign,func-returns-value]
    state = run.run(plan)
    assert least <= state.seconds <= 63
    assert task.evaluated == 4
    assert rates[-1] == run.config.rate(plan.steps - 1, plan.steps)
    assert np.abs(np.diff(rates)).max() < 0.1 * run.config.lr, "without a jump"
    changes = Plan.load(tmp_path / "plan.json").changes
    assert state.step == changes[-1][1]
    said = capsys.readouterr().err
    assert f"{changes[0][1]:,} steps instead of {plan.steps:,}, to end within 1 minutes" in said
    assert ("slower" if pace(25) > 0.1 or pace(55) > 0.1 else "faster") in said


def test_a_run_at_its_pace_changes_nothing(tmp_path: Path) -> None:
    run = trainer(Timed(lambda now: 0.095 + 0.01 * (int(now) % 2), evaluation=0.6), tmp_path)
    plan = planned(run.config)
    assert run.run(plan).step == plan.steps
    assert not (tmp_path / "plan.json").exists()


def ends(folder: Path) -> list[bytes]:
    last = steps_in(folder / "checkpoints")[-1]
    return [last.name.encode(), *((last / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer"))]


@pytest.mark.parametrize("average", [0.0, 0.9, 3.0])
@pytest.mark.parametrize("after", [-3, 0, 1, 60])
def test_killed_around_a_change_a_run_ends_with_the_same_bits(after: int, average: float, tmp_path: Path) -> None:
    pace: Pace = lambda now: 0.1 if now < 25 else 0.25  # noqa: E731
    first = trainer(Timed(pace), tmp_path / "first", average=average)
    plan = planned(first.config)
    first.run(plan)
    changed, _ = Plan.load(tmp_path / "first" / "plan.json").changes[0]

    out = tmp_path / "killed"
    run = trainer(Timed(pace, killed_after=changed + after), out, average=average)
    with pytest.raises(KilledError):
        run.run(plan)
    begun = Plan.load(out / "plan.json") if after >= 0 else plan
    assert [each for each, _ in begun.changes[:1]] == [changed] * (after >= 0)
    resumed = trainer(Timed(lambda now: 0.25), out, average=average)
    resumed.resume()
    assert 0 < resumed.state.step < changed + after
    resumed.run(begun)
    final = Plan.load(out / "plan.json")
    assert final.changes[: len(begun.changes)] == begun.changes, "no second decision before the last one"

    whole = trainer(Timed(lambda now: 0.1), tmp_path / "whole", average=average, minutes=None, steps=9)
    whole.run(final)
    assert ends(out) == ends(tmp_path / "whole")


def test_two_processes_agree_on_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.timed", str(tmp_path / "meeting")]
    runs = [subprocess.Popen([*command, str(rank), str(tmp_path)], stdout=subprocess.PIPE) for rank in (0, 1)]
    leading, other = (json.loads(run.communicate(timeout=120)[0]) for run in runs)
    assert leading == other
    assert leading[0] == Plan.load(tmp_path / "plan.json").end < 582
