"""The charts, read back by an XML parser."""

import math
import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from regard.errors import UserError
from regard.look.charts import COLORS, NoMatplotlibError, Row, curve, forest
from tests.look.geometry import SVG

LOSS = {f"_series <{i}> $x^{i}$": [(500.0 * s, 8 / (s + 1) + i) for s in range(9)] for i in range(6)}
HEADS = ("parameters", "sentences/s")


def texts(drawing: str) -> list[str]:
    """Every one lies within the drawing."""
    root = ElementTree.fromstring(drawing)
    _, _, right, bottom = map(float, root.attrib["viewBox"].split())
    found = []
    for text in root.iter(f"{SVG}text"):
        moves = re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", text.attrib.get("transform", ""))
        x, y = map(float, moves[0]) if moves else (float(text.attrib["x"]), float(text.attrib["y"]))
        assert 0 <= x <= right
        assert 0 <= y <= bottom
        found.append(text.text or "")
    return found


def dots(drawing: str, color: str) -> list[tuple[float, float]]:
    uses = [use.attrib for use in ElementTree.fromstring(drawing).iter(f"{SVG}use")]
    return [(float(u["x"]), float(u["y"])) for u in uses if u.get("style", "").endswith(f"stroke: {color}")]


def rows(count: int) -> list[Row]:
    return [
        Row(
            name=f"system <{i}> & $y$ " + "long " * 3 * (i % 3),
            mean=40 - i / 3,
            low=38 - i / 2,
            high=41.5 - i / 3,
            seeds=(39.5 - i / 3, 40.5 - i / 3),
            flops=10 ** (13 + i / 2),
            columns=(f"{i}.0 M", f"{10**i:,}"),
        )
        for i in range(count)
    ]


def test_six_series_are_named_as_they_are_and_lie_within_the_drawing() -> None:
    drawing = curve(LOSS, "step", "loss & more", "A title")
    assert {*LOSS, "step", "loss & more", "A title", "4000", "10"} <= set(texts(drawing))
    assert drawing == curve(LOSS, "step", "loss & more", "A title"), "the same bytes"


def test_a_point_is_drawn_in_proportion() -> None:
    start, middle, end, *_ = dots(curve({"a": [(0, 0), (50, 10), (100, 100)]}, "x", "y", "t"), COLORS[0])
    assert middle[0] == pytest.approx((start[0] + end[0]) / 2)
    assert start[1] - middle[1] == pytest.approx((start[1] - end[1]) / 10, abs=1e-5)
    assert end[1] < start[1]


def test_a_value_that_is_not_finite_leaves_a_gap() -> None:
    drawing = curve({"a": [(0, 1), (1, 2), (2, math.nan), (3, math.inf), (4, 2), (5, 1)]}, "x", "y", "t")
    (path,) = [d for d in re.findall(r'<path d="([^"]*)" clip-path[^>]*stroke: #000000', drawing) if "L" in d]
    assert (path.count("M"), path.count("L")) == (2, 2)


@pytest.mark.parametrize("value", [0.0, 3.7, -1e-7, 1e12])
def test_a_flat_line_or_a_single_point_is_drawn_too(value: float) -> None:
    for series in ([(value, value)], [(0.0, value), (1.0, value)]):
        assert len(dots(curve({"a": series}, "x", "y", "t"), COLORS[0])) == len(series) + 1  # in the legend


def test_colours_differ_when_printed_in_grey() -> None:
    channels = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS]
    greys = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in channels]
    assert all(lighter - darker >= 25 for darker, lighter in pairwise(greys))


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(UserError, match="0 series"):
        curve({}, "x", "y", "t")
    with pytest.raises(UserError, match="7 series"):
        curve({str(i): [(0, 0)] for i in range(7)}, "x", "y", "t")
    with pytest.raises(UserError, match="'a'.*finite"):
        curve({"a": [(0, math.nan)]}, "x", "y", "t")
    with pytest.raises(UserError, match="systems"):
        forest([], "t")


@pytest.mark.parametrize("count", [1, 2, 12])
def test_systems_stand_with_their_names_and_columns(count: int) -> None:
    drawing = forest(rows(count), "A title", "bleu", HEADS)
    found = texts(drawing)
    assert {"A title", "bleu", "training FLOPs", "system <0> & $y$", *HEADS, "0.0 M"} <= set(found)
    assert any(re.fullmatch(r"\de\+\d\d", text) for text in found), "a number at the axis of costs"
    places = dots(drawing, "#08306b")
    assert len(places) >= count
    assert [y for _, y in places] == sorted(y for _, y in places)


def test_dots_lie_in_proportion_and_costs_by_their_logarithms() -> None:
    drawn = [
        Row(name="a", mean=30.0, low=20.0, high=40.0, seeds=(25.0, 35.0), flops=1e15),
        Row(name="b", mean=20.0, flops=1e17),
        Row(name="c", mean=25.0, flops=1e16),
    ]
    drawing = forest(drawn, "t")
    low, high, a, b, c = (x for x, _ in dots(drawing, "#08306b"))
    assert (low, (low + high) / 2) == (b, pytest.approx(a, abs=1e-4))
    assert c - b == pytest.approx(a - c, abs=1e-4)
    seeds = [x for x, _ in dots(drawing, "#84cbee")]
    assert seeds == pytest.approx([c, a + (a - c)], abs=1e-4)
    one, two, three = (x for x, _ in dots(drawing, "#e8891c"))
    assert two - three == pytest.approx(three - one, abs=1e-4)


def test_what_is_not_finite_or_not_known_is_told() -> None:
    odd = [
        Row(name="a", mean=math.nan, low=math.nan, high=math.inf, seeds=(math.inf, 1.0), flops=0.0),
        Row(name="b", mean=1.0, low=None, high=2.0, flops=math.nan),
    ]
    drawing = forest(odd, "t")
    found = texts(drawing)
    assert (found.count("–"), found.count("nan")) == (2, 1)
    assert len(dots(drawing, "#08306b")) == 1
    forest([Row(name="a", mean=math.nan)], "nothing finite at all")


def test_a_very_long_name_is_cut() -> None:
    name = "a-name-of-a-file-that-somebody-thought-about-for-far-too-long"
    (cut,) = [text for text in texts(forest([Row(name=name, mean=1.0)], "t")) if text.endswith("…")]
    assert name.startswith(cut[:-1])


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NoMatplotlibError, match=r"regard\[plots\]"):
        curve({"a": [(0, 1)]}, "x", "y", "t")
