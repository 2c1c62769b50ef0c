"""Which languages a model translates: as told, by its recipe, by its folder's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import Desk
from regard.serve.house import Direction, House, Place, directions
from regard.serve.server import named


@pytest.mark.parametrize(
    ("folder", "train", "found"),
    [
        ("m30k-en-de", None, ("en", "de")),
        ("any", None, ("source", "target")),
        ("any", "[{corpus: daily/train}]", ("en", "de")),
        ("any", "[{corpus: multi30k-tok/fr-en/train}]", ("fr", "en")),
        ("any", "[{source: data/a.cs, target: data/a.eo}]", ("cs", "eo")),
        ("any", "[{source: a.txt.gz, target: b}]", ("source", "target")),
        ("x-cs-fi", "[5]", ("cs", "fi")),
        ("x-cs-fi", "!!python/object:x {}", ("cs", "fi")),
    ],
)
def test_languages_are_found(folder: str, train: str | None, found: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / folder
    path.mkdir()
    if train is not None:
        (path / "recipe.yaml").write_text(f"data: {{train: {train}}}", "utf-8")
    assert directions(path, (), None) == [(*found, None)]
    assert directions(path, (), ("la", "he")) == [("la", "he", None)]


def test_a_model_of_several_directions_has_one_for_each_tag(tmp_path: Path) -> None:
    corpora = "[{source: a.en, target: a.de, tag: de}, {source: a.en, target: a.fr, tag: fr}]"
    (tmp_path / "recipe.yaml").write_text(f"data: {{train: {corpora}}}", "utf-8")
    assert directions(tmp_path, ("de", "fr", "x"), None) == [
        ("en", "de", "de"), ("en", "fr", "fr"), ("source", "x", "x")
    ]  # fmt: skip


def test_names_are_those_of_people_where_they_are_known() -> None:
    desk = Desk("any", Limits())
    direction = Direction(Place("any", Path("any"), None, desk, desk), "de", "source")
    assert House([], Limits(), directions=[direction]).languages == {"de": "German", "source": "source"}


def test_folders_are_named_apart() -> None:
    found = named(["a/m", "b/m", "en-de=c/m", "d"])
    assert [(name, pair) for name, _, pair in found] == [("m", None), ("m-2", None), ("m-3", ("en", "de")), ("d", None)]
    with pytest.raises(UserError, match="ende=c/m.*en-de=c/m"):
        named(["ende=c/m"])
