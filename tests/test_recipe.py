from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.recipe import MOST_BYTES, differences, dump, parse, read


@dataclass(frozen=True, kw_only=True)
class Layer:
    width: int
    act: Literal["relu", "gelu", "off"] = "relu"


@dataclass(frozen=True, kw_only=True)
class Deep:
    kind: Literal["deep", "deeper"] = "deep"
    layers: tuple[Layer, ...] = ()
    position: str | None = "rotary"


@dataclass(frozen=True, kw_only=True)
class Flat:
    kind: Literal["flat"] = "flat"
    width: int = 64
    heads: int = 4

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise UserError(f"width {self.width} is not a multiple of heads {self.heads}; try 64")


@dataclass(frozen=True, kw_only=True)
class Train:
    lr: float
    steps: int | None = None
    betas: tuple[float, float] = (0.9, 0.98)
    warmup: int | Literal["auto"] = "auto"
    resume: bool = True
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Data:
    source: str = "a.en"
    language: str = "en"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str = "run"
    model: Flat | Deep = Flat(width=128)
    train: Train
    data: Data = Data()
    small: Layer | None = None


GOOD = """\
name: demo
model:
  kind: deep
  layers:
    - width: 3
    - {width: 5, act: off}
train:
  lr: 3e-4
  betas: [0.9, 1]
  tags: [no, 1e3, 2024-01-01, 'null', ~x]
data:
  language: no
small: {width: 0x10}
"""


def test_a_recipe_is_read_with_its_types() -> None:
    recipe = parse(Recipe, GOOD, "r.yaml")
    assert recipe == Recipe(
        name="demo",
        model=Deep(layers=(Layer(width=3), Layer(width=5, act="off"))),
        train=Train(lr=3e-4, betas=(0.9, 1.0), tags=("no", "1e3", "2024-01-01", "null", "~x")),
        data=Data(language="no"),
        small=Layer(width=16),
    )
    assert type(recipe.train.betas[1]) is float
    assert parse(Recipe, dump(recipe), "dump") == recipe


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + "name: Ünï\r\ntrain: {lr: 1}\r\n".encode())
        assert read(Recipe, path) == Recipe(name="Ünï", train=Train(lr=1.0))


@pytest.mark.parametrize("text", ["3e-4", "3E-4", "0.0003", "3.e-4", ".3e-3", "+3e-4", "30_0e-6"])
def test_numbers_with_an_exponent_need_no_point(text: str) -> None:
    assert parse(Train, f"lr: {text}", "r.yaml").lr == pytest.approx(3e-4, rel=1e-12)


def test_keys_not_given_are_as_in_the_default_of_the_section() -> None:
    """Else a changed head count would silently bring back the class's width."""
    assert parse(Recipe, "train: {lr: 1}\nmodel: {heads: 2}", "r.yaml").model == Flat(width=128, heads=2)
    assert parse(Recipe, "train: {lr: 1}", "r.yaml", ["model.heads=2"]).model == Flat(width=128, heads=2)
    assert parse(Recipe, "train: {lr: 1}\nmodel:\n  # heads: 2\n", "r.yaml").model == Flat(width=128)
    assert parse(Recipe, "train: {lr: 1}\nmodel: {kind: deep}", "r.yaml").model == Deep()


def test_empty_sections_and_files_are_defaults_where_there_are_any() -> None:
    assert parse(Data, "", "r.yaml") == parse(Data, "# nothing\n", "r.yaml") == parse(Data, "{}", "r.yaml") == Data()


# Each: the file, and for each line that is said about it the names in it, in their order.
MISTAKES = {
    "unknown key": ("train: {lr: 1}\nnmae: x", ["r.yaml:2: nmae name"]),
    "unknown deep key": ("train:\n  lr: 1\n  stepz: 3", ["r.yaml:3: train.stepz steps"]),
    "nothing near": ("train: {lr: 1}\nmodel:\n  qqq: 3", ["r.yaml:3: model.qqq kind, width, heads"]),
    "the typo of a needed key is told once": ("trian: {lr: 1}", ["r.yaml:1: trian train"]),
    "unknown key in a list": (
        "train: {lr: 1}\nmodel:\n  kind: deep\n  layers:\n    - width: 1\n    - width: 2\n      atc: relu",
        ["r.yaml:7: model.layers[1].atc act"],
    ),
    "merge key": ("train: {lr: 1}\nmodel:\n  <<: {heads: 2}", ["r.yaml:3: model.<< kind, width, heads"]),
    "text for a number": ("train:\n  lr: fast", ["r.yaml:2: train.lr fast number"]),
    "quoted number": ("train:\n  lr: '1'", ['r.yaml:2: train.lr "1" number']),
    "fraction": ("train:\n  lr: 1\n  steps: 1.5", ["r.yaml:3: train.steps 1.5 number null"]),
    "number for a truth": ("train:\n  lr: 1\n  resume: 1", ["r.yaml:3: train.resume 1 true false"]),
    "truth for a number": ("train:\n  lr: yes", ["r.yaml:2: train.lr yes number"]),
    "empty value": ("name:\ntrain: {lr: 1}", ["r.yaml:1: name empty text"]),
    "section for text": ("name: {a: b}\ntrain: {lr: 1}", ["r.yaml:1: name section text"]),
    "list for a number": ("train:\n  lr:\n    - 1", ["r.yaml:2: train.lr list number"]),
    "value for a section": ("train: 3", ["r.yaml:1: train 3 lr, steps, betas, warmup, resume, tags"]),
    "value for a list": ("train:\n  lr: 1\n  tags: new", ["r.yaml:3: train.tags new list text"]),
    "item": ("train:\n  lr: 1\n  betas:\n  - 0.9\n  - high", ["r.yaml:5: train.betas[1] high number"]),
    "too few items": ("train:\n  lr: 1\n  betas: [1]", ["r.yaml:3: train.betas 1 2"]),
    "no such choice": (
        "train: {lr: 1}\nsmall:\n  width: 1\n  act: rleu",
        ["r.yaml:4: small.act rleu relu gelu off relu"],
    ),
    "number or word": ("train:\n  lr: 1\n  warmup: atuo", ["r.yaml:3: train.warmup atuo number auto auto"]),
    "no such kind": ("train: {lr: 1}\nmodel:\n  kind: flta", ["r.yaml:3: model.kind flta flat deep deeper flat"]),
    "kind is a list": ("train: {lr: 1}\nmodel: {kind: [flat]}", ["r.yaml:2: model.kind list flat deep deeper"]),
    "missing key": ("name: x\ntrain:\n  steps: 3", ["r.yaml:2: train lr number"]),
    "missing section": ("name: x", ["r.yaml:1: train lr, steps, betas, warmup, resume, tags"]),
    "empty file": ("", ["r.yaml:1: train lr, steps, betas, warmup, resume, tags"]),
    "missing in a list": (
        "train: {lr: 1}\nmodel:\n  kind: deep\n  layers:\n  - act: off",
        ["r.yaml:5: model.layers[0] width number"],
    ),
    "rule of a section": (
        "train: {lr: 1}\nmodel:\n  heads: 3",
        ["r.yaml:2: model width 128 is not a multiple of heads 3; try 64"],  # as the section itself says it
    ),
    "twice": ("name: a\ntrain: {lr: 1}\nname: b", ["r.yaml:3: name r.yaml:1"]),
    "anchor": ("train: {lr: 1}\nname: &here x", ["r.yaml:2: here anchor"]),
    "alias": ("name: *there", ["r.yaml:1: there alias"]),
    "tag": ("name: !!python/name:os.system x", ["r.yaml:1: tag:yaml.org,2002:python/name:os.system"]),
    "two documents": ("train: {lr: 1}\n---\nname: x", ["r.yaml:2: document '---'"]),
    "list at the top": ("\n- train", ["r.yaml:2: 'key: value' list"]),
    "text at the top": ("train", ["r.yaml:1: 'key: value' train"]),
    "key that is no word": ("train: {lr: 1}\n? [a]\n: b", ["r.yaml:2: list key"]),
    "tab": ("train:\n\tlr: 1", ["r.yaml:2: YAML (found character '\\t' that cannot start any token) spaces tabs"]),
    "open quote": ("name: 'x\ntrain: {lr: 1}\n", ["r.yaml:3: YAML (found unexpected end of stream) quotes"]),
    "control character": ("name: a\ntrain: \x07", ["r.yaml:2: '\\x07' YAML"]),
    "escape sequences never reach the terminal": (
        'train: {lr: "\\e[31m"}',
        ["r.yaml:1: train.lr \"'\\x1b[31m'\" number"],
    ),
    "no such character": ('name: "\\UFFFFFFFF"', ["r.yaml: \\U"]),
    "deep": ("train: " + "[" * 30, ["r.yaml:1: 20 levels"]),
    "base 60": ("train:\n  lr: 1:30", ["r.yaml:2: train.lr 1:30 number"]),
    "endless digits": (f"train:\n  lr: 1\n  steps: {'9' * 5000}", [f"r.yaml:3: train.steps {'9' * 57}... number null"]),
    "too many values": (f"train: {{lr: 1, tags: [{'1,' * 20_000}]}}", ["r.yaml:1: 10,000 keys values"]),
    "large": ("#" * (MOST_BYTES + 1), ["r.yaml: 1 MB"]),
    "all at once": (
        "nmae: x\ntrain:\n  steps: many\nmodel:\n  heads: 5\ndata: [1]",
        [
            "r.yaml:1: nmae name",
            "r.yaml:3: train.steps many number null",
            "r.yaml:2: train lr number",
            "r.yaml:4: model width 128 is not a multiple of heads 5; try 64",
            "r.yaml:6: data list source, language",
        ],
    ),
}


def tells(line: str, names: str) -> bool:
    """Whether a line has the names, in their order, the first at its beginning; it is short."""
    return len(line) < 200 and re.match(".*".join(map(re.escape, names.split())), line) is not None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_with_line_key_and_remedy(mistake: str) -> None:
    text, told = MISTAKES[mistake]
    with pytest.raises(UserError) as error:
        parse(Recipe, text, "r.yaml")
    said = str(error.value).splitlines()
    assert len(said) == len(told), said
    for line, names in zip(said, told, strict=True):
        assert tells(line, names), line


def test_many_mistakes_are_told_in_a_message_of_bounded_size() -> None:
    with pytest.raises(UserError) as error:
        parse(Recipe, "train: {lr: 1}\n" + "".join(f"naem{i}: {'1:' * 99}1\n" for i in range(4000)), "r.yaml")
    said = str(error.value).splitlines()
    assert len(said) == 21
    assert " 3980 " in said[-1]
    assert tells(said[0], "r.yaml:2: naem0 name"), said[0]
    assert "train" not in said[0], "the nearest, not all that are known"


def test_bytes_that_are_not_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"train: {lr: 1}\nname: \xe9t\xe9\n")
    with pytest.raises(UserError, match=f"^{path}:2: .*UTF-8"):
        read(Recipe, path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "regular file")):
        with pytest.raises(UserError, match=f"^{path}: .*{why}"):
            read(Recipe, path)


def test_a_large_file_is_not_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("name: ä\n" + "#ä" * MOST_BYTES, "utf-8")
    with pytest.raises(UserError, match=f"^{path}: .*1,048,576"):
        read(Recipe, path)


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("train.lr=3e-4", {"lr": 3e-4}),
        ("train.steps=null", {"steps": None}),
        ("train.steps=7", {"steps": 7}),
        ("train.betas=[0.5, 1]", {"betas": (0.5, 1.0)}),
        ("train.tags=[on, a=b]", {"tags": ("on", "a=b")}),
        ("train.resume=false", {"resume": False}),
    ],
)
def test_overrides_are_typed_by_the_schema(override: str, changed: dict[str, Any]) -> None:
    text = "train: {lr: 1, steps: 5}"
    before = parse(Recipe, text, "r.yaml")
    after = parse(Recipe, text, "r.yaml", ["train.lr=9", "train.lr=1", override])
    assert after == replace(before, train=replace(before.train, **changed))


def test_overrides_make_the_sections_that_they_need() -> None:
    made = parse(Recipe, "", "r.yaml", ["train.lr=1", "small.width=2", "model.kind=deep", "model.layers=[{width: 1}]"])
    assert made == Recipe(train=Train(lr=1.0), small=Layer(width=2), model=Deep(layers=(Layer(width=1),)))


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("train.lr=abc", "train.lr abc number"),
        ("train.lt=3", "train.lt lr"),
        ("trian.lr=3", "trian train"),
        ("train.lr.x=3", "train.lr section number"),
        ("train.lr", "section.key=value section.key=null"),
        ("train.lr=", "section.key=value section.key=null"),
        ("train..lr=3", "section.key=value section.key=null"),
        ("train={lr: 3}", "section keys"),
        ("model.layers.width=3", "layers list layers=[...]"),
        ("train.betas=[1, x]", "train.betas[1] x number"),
        ("train.betas=[1", "YAML (expected ',' or ']', but got '<stream end>') quotes"),
        ("name=!!str x", "tag:yaml.org,2002:str"),
        ("small.act=off", "small width number"),
    ],
)
def test_mistakes_in_overrides_name_the_option(override: str, names: str) -> None:
    text = "train: {lr: 1}\nmodel: {kind: deep, layers: []}"
    with pytest.raises(UserError) as error:
        parse(Recipe, text, "r.yaml", [override])
    (said,) = str(error.value).splitlines()
    assert tells(said, f"--set {override}: {names}"), said


def test_mistakes_of_the_file_and_of_overrides_are_told_together() -> None:
    with pytest.raises(UserError) as error:
        parse(Recipe, "nmae: x\ntrain: {lr: 1}", "r.yaml", ["train.lr=abc", "x"])
    assert [line.split(": ")[0] for line in str(error.value).splitlines()] == [
        "--set x",
        "r.yaml:1",
        "--set train.lr=abc",
    ]


def test_differences_are_told_by_key() -> None:
    old = Recipe(train=Train(lr=3e-3, tags=("a",)))
    new = Recipe(name="x", train=Train(lr=1e-3, tags=("a", "on")), model=Deep(), small=Layer(width=1))
    assert differences(old, old) == []
    assert differences(old, new) == [
        "name: run -> x",
        "model.kind: flat -> deep",
        "model.width: 128 -> unset",
        "model.heads: 4 -> unset",
        "train.lr: 0.003 -> 0.001",
        "train.tags: [a] -> [a, 'on']",
        "small: null -> unset",
        "model.layers: unset -> []",
        "model.position: unset -> rotary",
        "small.width: unset -> 1",
        "small.act: unset -> relu",
    ]
    assert differences(Train(lr=math.nan), Train(lr=math.nan)) == []


# Lone surrogates are no text: no file can hold them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "no",
        "~",
        "null",
        "",
        "3e-4",
        "1:30",
        "0b_",
        "---",
        "a: b",
        "- a",
        "#",
        "2024-01-01",
        "\x85",
        "\u2028",
        "\ufeff",
        "<<",
    ]
)
WHOLE = st.integers(-(10**25), 10**25)
NUMBER = st.floats(allow_nan=False) | st.integers(-9, 9).map(float)
LAYER = st.builds(Layer, width=WHOLE, act=st.sampled_from(["relu", "gelu", "off"]))
TRAIN = st.builds(
    Train,
    lr=NUMBER,
    steps=st.none() | WHOLE,
    betas=st.tuples(NUMBER, NUMBER),
    warmup=WHOLE | st.just("auto"),
    resume=st.booleans(),
    tags=st.lists(TEXT, max_size=3).map(tuple),
)
MODEL = st.builds(Flat, width=st.just(12), heads=st.sampled_from([1, 2, 3, 4])) | st.builds(
    Deep,
    kind=st.sampled_from(["deep", "deeper"]),
    layers=st.lists(LAYER, max_size=3).map(tuple),
    position=st.none() | TEXT,
)
DATA = st.builds(Data, source=TEXT, language=TEXT)
RECIPE = st.builds(Recipe, name=TEXT, model=MODEL, train=TRAIN, data=DATA, small=st.none() | LAYER)
CALM = settings(derandomize=True, max_examples=300, deadline=None, database=None)


@CALM
@given(RECIPE)
def test_every_recipe_reads_back_as_itself(recipe: Recipe) -> None:
    again = parse(Recipe, dump(recipe), "dump")
    assert again == recipe
    assert dump(again) == dump(recipe), "types too"
    assert differences(recipe, again) == []


@CALM
@given(RECIPE, RECIPE)
def test_there_are_differences_exactly_between_different_recipes(old: Recipe, new: Recipe) -> None:
    assert bool(differences(old, new)) == (dump(old) != dump(new))


def recipe_or_error(text: str, overrides: list[str]) -> None:
    try:
        recipe = parse(Recipe, text, "r.yaml", overrides)
    except UserError as error:
        said = str(error).split("\n")
    else:
        said = []
        assert isinstance(recipe, Recipe)
        assert dump(parse(Recipe, dump(recipe), "dump")) == dump(recipe)
    for line in said:
        assert line.startswith(("r.yaml:", "--set "))
        assert line.isprintable(), "nothing from the file can act on the terminal"


@CALM
@given(st.binary(max_size=60), st.binary(max_size=20))
def test_random_bytes_give_a_recipe_or_a_user_error(data: bytes, option: bytes) -> None:
    recipe_or_error(data.decode("utf-8", "surrogateescape"), [])
    recipe_or_error("train: {lr: 1}\nname: " + data.decode("latin-1"), ["name=" + option.decode("latin-1")])


PIECES = st.sampled_from(
    [
        *"\n :-[]{},&*!|>'\"%@`#?~=<.0_",
        "&a ",
        "*a",
        "!!int ",
        "---\n",
        "\t",
        "  ",
        "<<",
        "0x",
        "1:2",
        "null",
        "\\U",
        "[[",
        "\x00",
    ]
)
CHANGES = st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 3), PIECES | TEXT), min_size=1, max_size=4)


@CALM
@given(CHANGES, st.lists(st.sampled_from(["train.lr", "model.kind", "model.layers", "x.y", ""]), max_size=2), TEXT)
def test_mutated_recipes_give_a_recipe_or_a_user_error(
    changes: list[tuple[int, int, str]], keys: list[str], value: str
) -> None:
    text = GOOD
    for place, cut, piece in changes:
        text = text[:place] + piece + text[place + cut :]
    recipe_or_error(text, [f"{key}={value}" for key in keys])
