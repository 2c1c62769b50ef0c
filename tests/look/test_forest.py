"""The picture of compared systems, read back by an XML parser."""

import math
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from regard.errors import UserError
from regard.look.forest import COST, QUALITY, Row, _powers, forest
from tests.look.geometry import SVG, stray_texts, width

HEADS = ("parameters", "sentences/s")


def rows(count: int) -> list[Row]:
    return [
        Row(
            name=f"system <{i}> & " + "long " * 3 * (i % 3),
            mean=40 - i / 3,
            low=38 - i / 2,
            high=41.5 - i / 3,
            seeds=(39.5 - i / 3, 40.5 - i / 3),
            flops=10 ** (13 + i / 2),
            columns=(f"{i}.0 M", f"{10**i:,}"),
        )
        for i in range(count)
    ]


def boxes(drawing: str) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of each text."""
    found = []
    for text in ElementTree.fromstring(drawing).iter(f"{SVG}text"):
        x, y, wide = float(text.attrib["x"]), float(text.attrib["y"]), width(text.text or "")
        left = x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib.get("text-anchor", "start")]
        found.append((left, left + wide, y - 9, y + 3))
    return found


def dots(drawing: str, color: str) -> list[tuple[float, float]]:
    circles = [circle.attrib for circle in ElementTree.fromstring(drawing).iter(f"{SVG}circle")]
    return [(float(each["cx"]), float(each["cy"])) for each in circles if each["fill"] == color]


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_no_text_is_cut_or_lies_upon_another(count: int) -> None:
    drawing = forest(rows(count), "A title", "bleu", HEADS)
    assert stray_texts(drawing) == []
    for one, two in combinations(boxes(drawing), 2):
        assert one[1] <= two[0] or two[1] <= one[0] or one[3] <= two[2] or two[3] <= one[2], (one, two)
    texts = [text.text for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert {"A title", "bleu", "training FLOPs", "system <0> &", *HEADS} <= set(texts)


def test_a_very_long_name_is_cut_and_told_in_full_by_pointing_at_it() -> None:
    name = "a-name-of-a-file-that-somebody-thought-about-for-far-too-long"
    drawing = forest([Row(name=name, mean=1.0)], "t")
    assert stray_texts(drawing) == []
    (text,) = [each for each in ElementTree.fromstring(drawing).iter(f"{SVG}text") if (each.text or "").endswith("…")]
    assert name.startswith((text.text or "")[:-1])
    assert text[0].text == name


def test_dots_and_whiskers_lie_in_proportion() -> None:
    drawn = [
        Row(name="a", mean=30.0, low=20.0, high=40.0, seeds=(25.0, 35.0), flops=1e15),
        Row(name="b", mean=20.0, flops=1e17),
        Row(name="c", mean=20.0, flops=1e16),
    ]
    drawing = forest(drawn, "t")
    (a, top), (b, middle), (c, bottom) = dots(drawing, "#08306b")
    assert top < middle < bottom
    assert b == c < a
    (whisker,) = re.findall(r'd="M([\d.]+) \d+H([\d.]+)M', drawing)
    low, high = map(float, whisker)
    assert low == b
    assert a - low == pytest.approx(high - a)
    assert [x - low for x, _ in dots(drawing, "#84cbee")] == pytest.approx([(high - low) / 4, (high - low) * 3 / 4])
    costs = [x for x, _ in dots(drawing, "#e8891c")]
    assert costs[1] - costs[2] == pytest.approx(costs[2] - costs[0]), "the axis is logarithmic"


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-7])
def test_equal_values_are_drawn_one_below_another(value: float) -> None:
    same = [Row(name=name, mean=value, low=value, high=value, seeds=(value,) * 2, flops=1e15) for name in "abc"]
    assert len({x for x, _ in dots(forest(same, "t"), "#08306b")}) == 1


def test_what_is_not_finite_or_not_known_is_told() -> None:
    odd = [
        Row(name="a", mean=math.nan, low=math.nan, high=math.inf, seeds=(math.inf, 1.0), flops=0.0),
        Row(name="b", mean=1.0, low=None, high=2.0, flops=math.nan),
    ]
    drawing = forest(odd, "t")
    assert stray_texts(drawing) == []
    texts = [text.text for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert texts.count("–") == 2
    assert "nan" in texts
    assert len(dots(drawing, "#08306b")) == 1
    forest([Row(name="a", mean=math.nan)], "nothing finite at all")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3e15], ["2e15", "5e15"]),
        ([1e15], ["5e14", "1e15", "2e15"]),
        ([9e14, 8e15], ["5e14", "1e15", "2e15", "5e15", "1e16"]),
        ([1e10, 2e14], ["1e10", "1e11", "1e12", "1e13", "1e14", "1e15"]),
        ([1.0, 1e300], ["1e0", "1e200", "1e400"]),
    ],
)
def test_powers_are_round_numbers_that_hold_all_values(values: list[float], expected: list[str]) -> None:
    marks = _powers(values)
    assert [text for _, text in marks] == expected
    assert marks[0][0] <= math.log10(min(values)) <= math.log10(max(values)) <= marks[-1][0]


def test_both_plots_hold_what_they_draw() -> None:
    drawing = forest(rows(12), "t", "bleu", HEADS)
    axes = [(float(x), float(x) + float(w)) for x, w in re.findall(r'd="M(\d+) \d+h(\d+)" stroke="#000000"', drawing)]
    assert [right - left for left, right in axes] == [QUALITY, COST]
    for color, (left, right) in zip(("#08306b", "#e8891c"), axes, strict=True):
        assert all(left <= x <= right for x, _ in dots(drawing, color))


def test_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="no systems"):
        forest([], "t")
