"""What the documents show is what runs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.contracts.snippets import ROOT, python_blocks, run


def test_the_readme_s_python_runs() -> None:
    blocks = python_blocks("README.md")
    assert blocks
    for code in blocks:
        run(code, "README.md")


def test_the_readme_s_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in (ROOT / "README.md").read_text("utf-8").split("`"):
        if word.startswith("make "):
            assert f"\n{word.split()[1]}:" in makefile, word


def test_the_example_in_contributing_has_twenty_lines() -> None:
    (block,) = (code for code in python_blocks("CONTRIBUTING.md") if "Score" in code)
    assert len([line for line in block.splitlines() if line.strip()]) <= 20


@pytest.mark.slow
def test_the_built_wheel_is_pure_and_whole(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    assert {str(p.relative_to(source)) for p in source.rglob("*.py")} <= names
    assert "regard/py.typed" in names
    assert not any(name.startswith(("tests/", "bench/")) for name in names)
    code = f"import sys; sys.path.insert(0, {str(wheel)!r})\nimport regard; print(regard.__file__)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert str(wheel) in said.stdout
