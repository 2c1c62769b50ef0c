"""The built wheel, where there is nothing else: an environment has what the wheel asks for, and no source tree."""

import json
import os
import subprocess
import sys
import urllib.request
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from regard.engine import build
from tests.contracts.snippets import ROOT

pytestmark = pytest.mark.slow
NAMES = {"tensorboard": "tensorboard", "images": "PIL", "audio": "soundfile"}
MODELS = ROOT / "tests" / "fixtures" / "models"
needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C++ compiler here")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def environment(folder: Path, wheel: Path, extra: str = "") -> Path:
    """Its python: the wheel, and links to what it needs with this extra, and that needs, as their metadata say."""
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (info,) = site.glob("regard-*.dist-info")
    todo, done = [(PathDistribution(info), extra)], {"regard"}
    while todo:
        each, wanted = todo.pop()
        for text in each.requires or []:
            need = Requirement(text)
            if need.name in done or (need.marker and not need.marker.evaluate({"extra": wanted})):
                continue
            done.add(need.name)
            try:
                found = distribution(need.name)
            except PackageNotFoundError:
                pytest.skip(f"{need.name} is not installed here")
            todo += [(found, name) for name in need.extras or {""}]  # type: ignore[list-item]
            for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                if not (site / top).exists():
                    (site / top).symlink_to(Path(str(found.locate_file(top))))
    return python


def regard(python: Path, *arguments: object, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "REGARD_DATA")}
    env |= {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [str(python.with_name("regard")), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=python.parent, env=env, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_it_is_pure_and_whole(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names, package = set(zipfile.ZipFile(wheel).namelist()), ROOT / "src" / "regard"
    files = subprocess.run(["git", "ls-files", "."], cwd=package, capture_output=True, text=True, check=True).stdout
    assert {f"regard/{name}" for name in files.split()} <= names
    assert not any(name.startswith(("tests/", "bench/", "tools/")) for name in names)


@needs_compiler
def test_a_minimal_install_runs_a_prepared_folder_without_torch(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path, wheel)
    for module in ("torch", "sacrebleu", "matplotlib", "starlette", "tests", "sentencepiece"):
        code = f"import importlib.util; raise SystemExit(importlib.util.find_spec({module!r}) is not None)"
        assert subprocess.run([python, "-I", "-c", code], check=False).returncode == 0, f"{module} is there"
    for stored in json.loads((MODELS.parent / "says.json").read_text("utf-8"))["native-int8"]:
        done = regard(python, "run", MODELS / "native-int8", *stored["arguments"], stdin=stored["input"])
        expected = [json.loads(line)["outputs"] for line in stored["output"].splitlines()]
        found = [json.loads(line)["outputs"] for line in done.stdout.splitlines()]
        assert [[o["text"] for o in line] for line in found] == [[o["text"] for o in line] for line in expected]
    assert "usage" in regard(python, "--help").stdout.lower()
    assert regard(python, "init", "translation").stdout.startswith("#")
    assert "regard[train]" in regard(python, "doctor").stdout
    for command in (["train", "x.yaml"], ["demo"], ["export", MODELS / "rnn", "out", "--to", "onnx"]):
        assert "regard[train]" in regard(python, *command, code=2).stderr
    assert "regard[serve]" in regard(python, "serve", MODELS / "native-int8", code=2).stderr


@needs_compiler
def test_with_serve_alone_it_serves_a_prepared_folder(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path, wheel, "serve")
    command = [python.with_name("regard"), "serve", f"en-de={MODELS / 'native-int8'}", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        url = next(line for line in process.stderr if line.startswith("http://")).strip()
        body = json.dumps({"q": "rot blau", "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["translatedText"]
        with urllib.request.urlopen(url) as page:
            assert b"<html" in page.read()
        process.terminate()


def test_with_train_alone_the_demo_trains_scores_and_draws(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "env", wheel, "train")
    recipe = (ROOT / "src" / "regard" / "data" / "daily" / "demo.yaml").read_text("utf-8")
    for old, new in (("width: 128", "width: 32"), ("_layers: 2", "_layers: 1"), ("max_length: 60", "max_length: 20")):
        assert old in recipe
        recipe = recipe.replace(old, new)
    (tmp_path / "small.yaml").write_text(recipe, "utf-8")
    done = regard(python, "demo", tmp_path / "small.yaml", "--out", tmp_path / "demo", "--minutes", 0.05)
    assert "1,000 test sentences" in done.stdout
    assert "BLEU" in done.stdout
    assert "alignment error rate 0." in done.stdout
    assert done.stdout.count("→") == 10
    assert "regard[plots]" in done.stderr  # for the curve alone
    assert "synthetic" in (tmp_path / "demo" / "apple.svg").read_text("utf-8")
    assert "daily/train (synthetic)" in (tmp_path / "demo" / "README.md").read_text("utf-8")
    again = regard(python, "train", tmp_path / "demo" / "recipe.yaml", "--out", tmp_path / "demo")
    assert "finished" in again.stderr
    said = regard(python, "run", tmp_path / "demo", stdin="I ate an apple\n\nthe dog\n").stdout
    assert said.count("\n") == 3
    assert "regard[serve]" in regard(python, "serve", tmp_path / "demo", code=2).stderr


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("plots", "from regard.look.charts import curve; print(curve({'a': [(0, 1), (1, 2)]}, 'x', 'y', 't'))"),
        (
            "exchange",
            "from regard.exchange.installed import installed; [installed(n) for n in ('ctranslate2', 'onnx')]",
        ),
        *(pytest.param(extra, f"import {name}", id=extra, marks=pytest.mark.full) for extra, name in NAMES.items()),
    ],
)
def test_each_extra_alone(extra: str, code: str, wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path, wheel, extra)
    subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, cwd=tmp_path)
    for line in regard(python, "doctor").stdout.splitlines():
        assert f"regard[{extra}]" not in line, line
    assert "regard[train]" in regard(python, "train", "x.yaml", code=2).stderr


def test_an_extra_that_nothing_lacks_has_all(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    needs = [Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist")]
    everything = {need.name for need in needs if need.marker and need.marker.evaluate({"extra": "all"})}
    assert everything == {need.name for need in needs if need.marker}
