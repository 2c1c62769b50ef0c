"""What the documents show is what runs."""

import dataclasses
import re
import runpy
import typing
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.data.config import TokenizerConfig
from regard.tasks.registry import TASKS, parse_recipe, read_recipe, starter
from tests.contracts.snippets import ROOT, python_blocks, run

DOCS = ROOT / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "README")
DRAWN = sorted(path.stem for path in (DOCS / "pictures").glob("*.svg"))


def test_the_readme_s_python_runs() -> None:
    blocks = python_blocks("README.md")
    assert blocks
    for code in blocks:
        run(code, "README.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_python_runs(page: str) -> None:
    for code in python_blocks(f"docs/{page}.md"):
        run(code, f"docs/{page}.md")


@pytest.mark.parametrize("page", ["README", *PAGES])
def test_what_a_page_links_to_exists(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (DOCS / f"{page}.md").read_text("utf-8")):
        assert "://" in target or (DOCS / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_the_source_files_that_a_page_names_exist(page: str) -> None:
    """In the package, the tests, the benches or the tools, by the end of their path."""
    rooms = [ROOT / room for room in ("src", "tests", "bench", "tools")]
    files = {f"/{path.relative_to(ROOT)}" for room in rooms for path in room.rglob("*")}
    for named in re.findall(r"`([\w/]+\.(?:py|hpp|cpp))`", (DOCS / f"{page}.md").read_text("utf-8")):
        assert any(file.endswith(f"/{named}") for file in files), named


@pytest.mark.parametrize("page", DRAWN)
def test_a_page_with_a_picture_shows_the_ten_lines_too_and_fits_two_screens(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    assert f"](pictures/{page}.svg)" in text
    assert len(python_blocks(f"docs/{page}.md")) == 1
    assert text.count("\n") <= 80


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    assert {page for page in PAGES if f"]({page}.md)" not in index} == set()


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    return dict(runpy.run_path(str(DOCS / "make.py"))["PICTURES"])


def test_every_picture_is_made_by_make_docs(pictures: dict[str, Any]) -> None:
    assert sorted(pictures) == DRAWN


@pytest.mark.full
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_remade_to_the_byte(name: str, pictures: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "again.svg").write_text(pictures[name](), "utf-8")
    assert (tmp_path / "again.svg").read_bytes() == (DOCS / "pictures" / f"{name}.svg").read_bytes()


def test_the_readme_s_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in (ROOT / "README.md").read_text("utf-8").split("`"):
        if word.startswith("make "):
            assert f"\n{word.split()[1]}:" in makefile, word


def test_the_example_in_contributing_has_twenty_lines() -> None:
    (block,) = (code for code in python_blocks("CONTRIBUTING.md") if "Score" in code)
    assert len([line for line in block.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").rglob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_are_read_and_say_how_they_are_run(path: Path) -> None:
    read_recipe(path)
    header = path.read_text("utf-8").split("data:")[0]
    assert f"regard train {path.relative_to(ROOT)}" in header
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
        settable = [field for field in dataclasses.fields(section) if field.init and not field.metadata.get("derived")]
        sizes.append(sum(leaves(hints[field.name]) for field in settable))
    return max(sizes)


def test_a_recipe_has_at_most_60_keys() -> None:
    # Training and validation data are described by the same keys, and so are the two tokenizers.
    for name, spec in TASKS.items():
        data = typing.get_type_hints(spec.recipe)["data"]
        (corpus, _) = typing.get_args(typing.get_type_hints(data)["train"])
        tokenizers = leaves(TokenizerConfig) if "target_tokenizer" in typing.get_type_hints(data) else 0
        assert leaves(spec.recipe) - leaves(corpus) - tokenizers <= 60, name


@pytest.mark.parametrize("task", TASKS)
def test_a_starter_recipe_is_read_and_has_at_most_12_keys(task: str) -> None:
    assert parse_recipe(starter(task), task).task == task
    sections = yaml.safe_load(starter(task))
    sections.pop("task", None)
    assert sum(map(len, sections.values())) <= 12
    settings = [line for line in starter(task).splitlines() if line.startswith("  ")]
    assert sum("#" in line for line in settings) > len(settings) / 2
