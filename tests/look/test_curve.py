"""The chart of curves, read back by an XML parser."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from regard.errors import UserError
from regard.look.curve import COLORS, _ticks, curve
from tests.look.geometry import SVG, stray_texts

LOSS = {f"series <{i}>": [(500.0 * s, 8 / (s + 1) + i) for s in range(9)] for i in range(6)}


def lines(drawing: str) -> list[list[tuple[float, float]]]:
    """The points of each coloured path, without those of the legend."""
    paths = [path.attrib for path in ElementTree.fromstring(drawing).iter(f"{SVG}path")]
    drawn = [path["d"] for path in paths if path.get("stroke-width") == "2" and "h20" not in path["d"]]
    return [[(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", d)] for d in drawn]


def test_six_series_lie_within_the_axes_and_are_named() -> None:
    drawing = curve(LOSS, "step", "loss & more", "A title that is rather long, " * 5)
    assert stray_texts(drawing) == []
    texts = [text.text for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert texts[-6:] == list(LOSS)
    assert {"step", "loss & more", "0", "4000", "10"} <= set(texts)
    assert [len(line) for line in lines(drawing)] == [9] * 6


def test_a_point_is_drawn_in_proportion() -> None:
    ((start, middle, end),) = lines(curve({"a": [(0, 0), (50, 10), (100, 100)]}, "x", "y", "t"))
    assert middle[0] == pytest.approx((start[0] + end[0]) / 2)
    assert start[1] - middle[1] == pytest.approx((start[1] - end[1]) / 10)
    assert end[1] < start[1]


def test_a_value_that_is_not_finite_leaves_a_gap() -> None:
    drawing = curve({"a": [(0, 1), (1, 2), (2, math.nan), (3, math.inf), (4, 2), (5, 1)]}, "x", "y", "t")
    (path,) = re.findall(r'd="(M[^"]*L[^"]*)"', drawing)
    assert path.count("M") == 2
    assert path.count("L") == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 10.0], ["0", "2", "4", "6", "8", "10"]),
        ([1.2, 1.9], ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]),
        ([-3.0, 4.0], ["-4", "-2", "0", "2", "4"]),
        ([0.0, 100000.0], ["0", "20000", "40000", "60000", "80000", "100000"]),
        ([1e-4, 3e-4], ["0.00010", "0.00015", "0.00020", "0.00025", "0.00030"]),
    ],
)
def test_ticks_are_round_numbers_that_hold_all_values(values: list[float], expected: list[str]) -> None:
    ticks = _ticks(values)
    assert [text for _, text in ticks] == expected
    assert [value for value, _ in ticks] == pytest.approx([float(text) for text in expected])


@pytest.mark.parametrize("value", [0.0, 3.7, -1e-7, 1e12])
def test_a_flat_line_or_a_single_point_is_drawn_too(value: float) -> None:
    for series in ([(value, value)], [(0.0, value), (1.0, value * (1 + 1e-15))]):
        (points,) = lines(curve({"a": series}, "x", "y", "t"))
        assert len(points) == 2


def test_colours_differ_when_printed_in_grey() -> None:
    channels = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS]
    greys = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in channels]
    assert all(lighter - darker >= 25 for darker, lighter in pairwise(greys))


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(UserError, match="0 series"):
        curve({}, "x", "y", "t")
    with pytest.raises(UserError, match="7 series"):
        curve({str(i): [(0, 0)] for i in range(7)}, "x", "y", "t")
    with pytest.raises(UserError, match="'a' has no finite point"):
        curve({"a": [(0, math.nan)]}, "x", "y", "t")
