"""Recipes side by side: trained, judged and told, through the command line and whatever stops it."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from regard import load
from regard.cli.main import compare
from regard.comparison.runs import TIMED, _cost, judge_of, judge_run, speeds, stored_run
from regard.comparison.table import Run, Table
from regard.errors import UserError
from regard.files import write_folder
from regard.metrics.text import METRICS
from regard.tasks.judging import Judge, Judged
from regard.tasks.registry import TASKS, parse_recipe
from regard.training.checkpoint import steps_in
from regard.training.plan import Plan
from tests.forked import Process, children, is_alive, wait_for_the_end_of
from tests.training.toy import regard, start, write_recipe

TEXT = "task: lm\ndata: {train: [{file: t}], hold_out: 0.1}\ntrain: {minutes: 1, seed: 5}\n"


def recipes(folder: Path) -> list[Path]:
    """Two that differ in width alone."""
    recipe = json.loads(write_recipe(folder, metric="chrf").read_text("utf-8"))
    paths = [folder / "narrow.yaml", folder / "wide & deep.yaml"]
    for path, width in zip(paths, (8, 24), strict=True):
        recipe["model"]["width"] = width
        path.write_text(json.dumps(recipe), "utf-8")
    return paths


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two recipes and two seeds."""
    folder = tmp_path_factory.mktemp("compare")

    class Run(Process):
        """In the place of a new python, which costs seconds; those that are killed below are real ones."""

        def __init__(self, command: list[str]) -> None:
            super().__init__(
                ["-m", *command[command.index("train") :]], tmp_path_factory.mktemp("run"), dict(os.environ)
            )

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setattr("regard.comparison.runs.subprocess", SimpleNamespace(Popen=Run))
        compare(recipes(folder), seeds=2, out=folder / "out", threads=1)
    (folder / "said").write_text(said.getvalue(), "utf-8")
    return folder / "out"


def compared(out: Path, *arguments: object, seeds: int = 2, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    return regard("compare", *arguments, "--seeds", seeds, "--out", out, "--threads", 1, code=code)


def told(out: Path) -> dict[str, Any]:
    """All that must be the same again: the table but for times."""
    table = json.loads((out / "compare.json").read_text("utf-8"))
    for system in table["systems"]:
        system.pop("minutes")
        system.pop("speed")
        for run in system["runs"]:
            run.pop("seconds")
    return dict(table)


def test_a_table_a_picture_and_all_numbers_come_of_it(out: Path) -> None:
    table = json.loads((out / "compare.json").read_text("utf-8"))
    assert (table["metric"], table["higher"], table["items"]) == ("chrf", True, 20)
    first, second = table["systems"]
    assert {first["name"], second["name"]} == {"narrow", "wide & deep"}
    assert first["mean"] >= second["mean"]
    sources, references = ((out.parent / f"valid.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt"))
    for system in table["systems"]:
        assert system["low"] <= system["mean"] <= system["high"]
        assert [run["seed"] for run in system["runs"]] == [0, 1]
        for run in system["runs"]:
            folder = out / system["name"] / str(run["seed"])
            assert run["value"] == METRICS["chrf"][0](load(folder)(sources), references).value
            card = (folder / "README.md").read_text("utf-8")
            assert f"{run['flops']:.3g} |" in card
            assert f"| parameters | {system['parameters']:,} |" in card
        assert system["speed"] > 0
    assert first["ahead_of_next"]["value"] == pytest.approx(first["mean"] - second["mean"])
    assert 0 < first["ahead_of_next"]["p_value"] <= 1
    assert second["ahead_of_next"] is None
    markdown = (out / "compare.md").read_text("utf-8")
    assert markdown == (out.parent / "said").read_text("utf-8")
    lines = markdown.splitlines()
    assert lines[0].count("|") == lines[2].count("|") == lines[3].count("|") == 9
    assert lines[2].startswith(f"| {first['name']} | {first['mean']:.2f} (")
    assert re.search("20 sentences .*validation", markdown)
    drawing = ElementTree.fromstring((out / "compare.svg").read_text("utf-8"))
    assert {"narrow", "wide & deep"} <= {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}


def test_the_same_again_trains_nothing_and_tells_the_same(out: Path) -> None:
    done = compared(out, *recipes(out.parent), "--json")
    assert json.loads(done.stdout) == json.loads((out / "compare.json").read_text("utf-8"))
    assert done.stderr == b""


def test_other_test_data_are_judged_without_training_again(out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    (narrow, _), folder = recipes(out.parent), out.parent
    files = ("--source", folder / "train.src", "--target", folder / "train.tgt")
    done = compared(copy, narrow, *files, seeds=1)
    assert b"parameters" not in done.stderr
    assert b"180 sentences" in done.stdout
    assert b"one seed" in done.stdout
    table = json.loads((copy / "compare.json").read_text("utf-8"))
    assert [system["name"] for system in table["systems"]] == ["narrow"]
    assert table["systems"][0]["ahead_of_next"] is None


def test_a_changed_recipe_is_refused_in_the_words_of_train_and_the_rest_is_kept(out: Path) -> None:
    before = told(out)
    done = compared(out, *recipes(out.parent), "--set", "train.lr=0.004", code=2).stderr.decode()
    assert "train.lr: 0.005 -> 0.004" in done
    assert "narrow, seed 0" in done.splitlines()[-1]
    assert told(out) == before


def wait_for(path: Path, process: Process) -> None:
    for _ in range(6000):
        if path.exists():
            return
        assert is_alive(process.pid)
        time.sleep(0.01)
    raise AssertionError(path)


@pytest.mark.full
@pytest.mark.slow
def test_stopped_by_ctrl_c_and_by_kills_it_ends_with_the_same_table(out: Path, tmp_path: Path) -> None:
    paths = recipes(out.parent)
    folders = [tmp_path / "out" / path.stem / "0" for path in paths]

    def begin(name: str) -> Process:
        arguments = ("compare", *paths, "--seeds", 1, "--out", tmp_path / "out", "--threads", 1)
        return start(tmp_path / name, *arguments)

    process = begin("first")
    wait_for(folders[0] / "plan.json", process)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    said = process.read("stderr").decode()
    assert "kept" in said
    assert "Traceback" not in said
    process = begin("second")  # in the middle of the second run, all at once
    wait_for(folders[1] / "checkpoints" / "step-5", process)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert (folders[0] / "judged.json").exists()
    assert not (folders[1] / "judged.json").exists()
    reached = steps_in(folders[1] / "checkpoints")[-1].name.replace("-", " ")
    done = compared(tmp_path / "out", *paths, seeds=1).stderr.decode()
    assert "narrow, seed 0" not in done
    assert any(reached in line and "best" not in line for line in done.splitlines())
    whole = compared(out, *paths, seeds=1)
    (line,) = whole.stderr.decode().splitlines()
    assert "timing" in line
    assert told(tmp_path / "out") == told(out)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_ends_with_the_process_that_started_it(signum: signal.Signals, tmp_path: Path) -> None:
    (path, _) = recipes(tmp_path)
    long = ("--set", "train.steps=100000", "--set", "train.evaluations=1", "--out", tmp_path / "out", "--threads", 1)
    process = start(tmp_path / "said", "compare", path, *long)
    folder = tmp_path / "out" / "narrow" / "0"
    wait_for(folder / "plan.json", process)
    (training,) = children(process.pid)
    time.sleep(1)
    process.kill(signum)
    assert process.wait() == (143 if signum == signal.SIGTERM else -9)
    wait_for_the_end_of(training)
    said = process.read("stderr").decode()
    assert ("kept" in said) == (signum == signal.SIGTERM)
    assert bool(steps_in(folder / "checkpoints")) == (signum == signal.SIGTERM), "asked to, it saves"


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ("a.yaml", "b/a.yaml", {}, r"/a.yaml .*/b/a.yaml.* a\b"),
        ("a.yaml", "a.yaml", {}, r"/a.yaml .*/a.yaml.* a\b"),
        ("a.yaml", "none.yaml", {}, "none.yaml.*No such file"),
        ("a.yaml", "other.yaml", {}, r"a.yaml .*other.yaml.*data.train: \[.*hold_out: 0.0 -> 0.1"),
        ("a.yaml", "language.yaml", {}, "task: translation -> lm"),
        ("a.yaml", "metric.yaml", {}, "train.metric: chrf -> bleu.*`settings`"),
        ("a.yaml", "b.yaml", {"source": Path("x")}, "`source` .*`target`"),
        ("a.yaml", "b.yaml", {"source": Path("x"), "target": Path("y"), "data": "z"}, "`data` .*`source`"),
        ("a.yaml", "b.yaml", {"source": Path("x"), "target": Path("y")}, r"^x\b.*No such file"),
        ("a.yaml", "b.yaml", {"data": "daily/nothing"}, "daily.*nothing"),
        ("a.yaml", "b.yaml", {"setting": ["data.valid=[]"]}, "`source` .*`target`.*`data`"),
        ("a.yaml", "b.yaml", {"minutes": 0.0}, r"`minutes` 0\b"),
        ("language.yaml", "tokens.yaml", {"data": "x"}, r"loss.* x\b"),
        ("language.yaml", "tokens.yaml", {"setting": ["data.hold_out=0"]}, "data.hold_out to 0.1"),
        ("masked.yaml", "blanks.yaml", {}, "data.mask_rate: 0.15 -> 0.3"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    first: str, second: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (path, _) = recipes(tmp_path)
    recipe = json.loads(path.read_text("utf-8"))
    data, masked = recipe["data"], TEXT.replace("lm", "mlm")
    made = {
        "other.yaml": {**recipe, "data": {"train": data["valid"], "hold_out": 0.1, "tokenizer": data["tokenizer"]}},
        "metric.yaml": {**recipe, "train": {**recipe["train"], "metric": "bleu"}},
        **dict.fromkeys(("a.yaml", "b.yaml", "b/a.yaml"), recipe),
    }
    (tmp_path / "b").mkdir()
    texts = {name: json.dumps(each) for name, each in made.items()}
    texts |= {"language.yaml": TEXT, "tokens.yaml": TEXT.replace("data: {", "data: {tokenizer: {vocabulary: 500}, ")}
    texts |= {"masked.yaml": masked, "blanks.yaml": masked.replace("data: {", "data: {mask_rate: 0.3, ")}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(UserError, match=re.compile(message, re.DOTALL)):
        compare([tmp_path / first, tmp_path / second], out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def run_of(value: float, **known: Any) -> Run:
    return Run(judged=Judged(metric="loss", higher=False, value=value), parameters=1234567, seconds=738.0, **known)


def table_of(values: dict[str, list[float]], seeds: int = 3) -> Table:
    recipe = parse_recipe(TEXT, "text")
    runs = {name: {i: run_of(x, flops=3.14e15) for i, x in enumerate(each)} for name, each in values.items()}
    return Table.of(judge_of(dict.fromkeys(values, recipe)), seeds, runs, {}, {})


def test_without_items_seeds_alone_tell_and_the_lowest_loss_is_first() -> None:
    table = table_of({"a|b": [3.1, 3.2, 3.3], "c": [1.4, 1.5, 1.6], "d": [float("nan")]})
    assert [line.name for line in table.lines] == ["c", "a|b", "d"]
    said = table.markdown()
    assert "| c | 1.5000 (1.2516 to 1.7484) | 3: 1.4000 to 1.6000 | 1.2 M | 3.1e15 | 12.3 min | -1.7000 (" in said
    assert "| a\\|b | 3.2000" in said
    assert "Student's t" not in said, "one of them has one seed"
    assert "a|b, c, d" in said
    assert "d 1, d 2" in said
    found = json.loads(table.json())
    assert [run["seed"] for run in found["systems"][0]["runs"]] == [5, 6, 7]
    assert found["systems"][2]["mean"] is None
    ElementTree.fromstring(table.picture("<&>"))
    assert re.search("Student's t .*Welch's", table_of({"a": [1.0, 1.1], "b": [1.2, 1.3]}).markdown())
    alone = table_of({"a": [1.0]}, seeds=1).markdown()
    assert "| a | 1.0000 | 1 | 1.2 M | 3.1e15 | 12.3 min | – |" in alone
    assert "seeds" in alone


def test_an_interval_ends_where_its_metric_ends() -> None:
    wide = table_of({"a": [0.1, 0.9], "b": [1.0, 1.1]}).lines[0]
    assert wide.quality.low == 0.0
    assert wide.quality.high == pytest.approx(0.5 + 12.7062 * 0.4, rel=1e-4)
    assert wide.ahead is not None
    assert wide.ahead.low is not None
    assert wide.ahead.low < -1, "losses have no greatest difference"


def test_runs_judged_by_other_data_are_not_put_side_by_side() -> None:
    recipe, run = parse_recipe(TEXT, "text"), run_of(1.0, flops=None)
    other = replace(run, judged=replace(run.judged, wanted=["changed"]))
    with pytest.raises(UserError, match="b/0 .*a/0.*judged.json"):
        Table.of(judge_of({"a": recipe, "b": recipe}), 1, {"a": {0: run}, "b": {0: other}}, {}, {})


def test_every_task_has_a_judge() -> None:
    assert len(TASKS) >= 9
    assert all(isinstance(spec.judge(recipes={}), Judge) for spec in TASKS.values())


def test_losses_of_other_tokens_are_counted_by_character(tmp_path: Path) -> None:
    recipe = parse_recipe(TEXT, "text")
    other = parse_recipe(TEXT, "text", ["data.tokenizer.vocabulary=500"])
    assert judge_of({"a": recipe, "b": recipe}).metric == "loss"
    assert judge_of({"a": recipe, "b": other}).metric == "per_character"


def test_what_it_began_with_is_not_counted_and_that_is_said() -> None:
    text = "task: classification\ndata: {train: [{file: t.tsv}], hold_out: 0.1}\ntrain: {epochs: 1}\n"
    fresh, tuned = parse_recipe(text, "text"), parse_recipe(text + "model: {init_from: runs/x}\n", "text")
    runs = {name: {0: run_of(1.0, flops=None)} for name in ("fresh", "tuned")}
    judged = replace(runs["fresh"][0].judged, metric="accuracy", said=["a"], wanted=["a"])
    runs = {name: {0: replace(each[0], judged=judged)} for name, each in runs.items()}
    table = Table.of(judge_of({"fresh": fresh, "tuned": tuned}), 1, runs, {"fresh": 5.0}, {})
    assert re.search("model.*tuned", table.markdown())
    assert "1 examples" in table.markdown()


def test_costs_are_read_from_the_newest_checkpoint_and_from_the_log(tmp_path: Path) -> None:
    Plan(threads=1, torch="2", machine="m", parameters=7, flops=(1.0,)).save(tmp_path / "plan.json")
    log = [{"step": 10, "seconds": 4.0}, {"step": 15, "seconds": 6.5}]  # patience ended it between two checkpoints
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), "utf-8")
    assert _cost(tmp_path) == {"parameters": 7, "flops": None, "seconds": 6.5}
    state = {"step": 10, "flops": 200.0, "seconds": 4.2}
    write_folder(tmp_path / "checkpoints" / "step-10", {"state.json": json.dumps(state).encode()})
    assert _cost(tmp_path) == {"parameters": 7, "flops": 300.0, "seconds": 6.5}


class Stub:
    """A model that says "good" to all that begins so, and keeps count of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def predictions(self, examples: list[Any]) -> tuple[list[str], list[str]]:
        self.asked.append(len(examples))
        said = ["good" if example.texts[0].startswith("good") else "bad" for example in examples]
        return said, [example.answer for example in examples]


def test_labelled_examples_are_judged_kept_and_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"text": f"{'good' if i % 3 else 'bad'} {i}", "label": "good" if i % 4 else "bad"} for i in range(300)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    text = (
        f"task: classification\ndata: {{train: [{{file: {tmp_path}/t.jsonl}}], hold_out: 0.1}}\ntrain: {{epochs: 1}}\n"
    )
    recipe, stub = parse_recipe(text, "text"), Stub()
    monkeypatch.setattr("regard.comparison.runs.opened", lambda folder, judge: stub)
    cost = {"parameters": 3, "flops": 1e9, "seconds": 1.0}
    monkeypatch.setattr("regard.comparison.runs._cost", lambda folder: cost)
    judge = judge_of({"stub": recipe}, data=str(tmp_path / "t.jsonl"))
    judge.check()
    run = judge_run(tmp_path, judge)
    right = sum(bool(i % 3) == bool(i % 4) for i in range(300))
    assert (run.judged.metric, run.judged.value) == ("accuracy", pytest.approx(100 * right / 300))
    assert run == stored_run(tmp_path, judge)
    other = replace(recipe, train=replace(recipe.train, metric="f1"))
    assert stored_run(tmp_path, replace(judge, recipes={"stub": other})) is None
    assert stored_run(tmp_path, replace(judge, data=None)) is None
    assert stored_run(tmp_path / "nowhere", judge) is None
    table = Table.of(judge, 1, {"stub": {0: run}}, {}, {})
    (line,) = table.lines
    share = right / 300
    reach = 100 * 1.96 * (share * (1 - share) / 300) ** 0.5  # of a share, by the normal distribution
    assert line.quality.low == pytest.approx(100 * share - reach, abs=0.6)
    assert line.quality.high == pytest.approx(100 * share + reach, abs=0.6)
    found = speeds({"stub": tmp_path}, judge, run.judged.asked)
    assert found["stub"] > 0
    assert stub.asked == [300, 150, 150, 150, 150]
    assert TIMED == 200
    (tmp_path / "judged.json").write_text('{"by": 1, ')
    assert stored_run(tmp_path, judge) is None
