"""What the documents show is what runs."""

import dataclasses
import subprocess
import sys
import typing
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.cli.init import RECIPES
from regard.data.config import PairsConfig, RunningText, TokenizerConfig
from regard.train.config import MaskedRecipe, Recipe, TextRecipe, parse_recipe, read_recipe
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


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_are_read_and_say_how_they_are_run(path: Path) -> None:
    read_recipe(path)
    header = path.read_text("utf-8").split("data:")[0]
    assert f"regard train recipes/{path.name}" in header
    assert "Expected score:" in header


def leaves(schema: Any) -> int:
    """The keys that a section of a recipe has, those of its own sections counted, of a choice the largest."""
    options = typing.get_args(schema) or (schema,)
    sections = [option for option in options if dataclasses.is_dataclass(option)]
    if not sections:
        return 1
    sizes = []
    for section in sections:
        hints = typing.get_type_hints(section)
        settable = [field for field in dataclasses.fields(section) if not field.metadata.get("derived")]
        sizes.append(sum(leaves(hints[field.name]) for field in settable))
    return max(sizes)


def test_a_recipe_has_at_most_60_keys() -> None:
    # Training and validation data are described by the same keys, and so are the two tokenizers.
    twice = leaves(PairsConfig) + leaves(TokenizerConfig)
    assert leaves(Recipe) - twice <= 60
    assert leaves(TextRecipe) - leaves(RunningText) <= 60
    assert leaves(MaskedRecipe) - leaves(RunningText) <= 60


@pytest.mark.parametrize("task", RECIPES)
def test_a_starter_recipe_is_read_and_has_at_most_12_keys(task: str) -> None:
    assert parse_recipe(RECIPES[task], task).task == task
    sections = yaml.safe_load(RECIPES[task])
    sections.pop("task", None)
    assert sum(map(len, sections.values())) <= 12
    settings = [line for line in RECIPES[task].splitlines() if line.startswith("  ")]
    assert sum("#" in line for line in settings) > len(settings) / 2


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
