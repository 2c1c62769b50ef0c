"""The figure of attention, read back by an XML parser and measured by rich's table of character widths."""

import math
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from rich.text import Text

from regard.errors import UserError
from regard.look.figure import Picture
from tests.look.geometry import SVG, stray_texts

WORDS = [
    "Größe",
    "我们签署",
    "العربية",
    "😀",
    "<b>&",
    "e\u0301te\u0301",
    "a\nb\x1b[31m\ud800\ufffe",
    "\u0301x",
    "WWWWMMMM" * 4,
]


def picture(source: list[str], target: list[str], title: str = "") -> Picture:
    count = len(source) * len(target)
    rows = [[(t * len(source) + s) / max(count - 1, 1) for s in range(len(source))] for t in range(len(target))]
    return Picture(source, target, rows, title)


SIZES = {
    "one cell": picture(["a"], ["b"]),
    "words of every kind": picture(WORDS, WORDS[:4], "Ünicode <b>& 标题"),
    "forty by forty": picture([f"word{i}" for i in range(40)], [f"Wort{i}" for i in range(40)], "forty"),
    "a title wider than the rest": picture(["a"], ["b"], "A long title. " * 9),
    "a source past the terminal's width": picture([f"{i}" for i in range(130)], ["x" * 80, "y"]),
}
each = pytest.mark.parametrize("shown", SIZES.values(), ids=list(SIZES))


@each
def test_a_drawing_has_a_cell_for_each_pair_of_words(shown: Picture) -> None:
    root = ElementTree.fromstring(shown.svg())
    cells = list(root.iter(f"{SVG}rect"))
    assert len(cells) == len(shown.source) * len(shown.target)
    greys = [round(255 * weight) for row in shown.weights for weight in row]
    assert [cell.attrib["fill"] for cell in cells] == [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in greys]
    assert len({(cell.attrib["x"], cell.attrib["y"]) for cell in cells}) == len(cells)


@each
def test_no_text_of_a_drawing_is_cut(shown: Picture) -> None:
    assert stray_texts(shown.svg()) == []


@each
def test_a_drawing_needs_nothing_from_outside_and_runs_nothing(shown: Picture) -> None:
    drawing = shown.svg()
    drawing.encode("utf-8")
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(drawing).iter()}
    assert tags <= {"svg", "title", "text", "rect", "path", "g"}
    assert "href" not in drawing
    assert drawing.count("http") == 1  # the name of the format


@each
@pytest.mark.parametrize("color", [False, True])
def test_the_terminal_keeps_its_columns(shown: Picture, color: bool) -> None:
    text = Text.from_ansi(shown.terminal(color)).plain if color else shown.terminal(color)
    lines = text.splitlines()[bool(shown.title) :]
    assert all("\x1b" not in line for line in lines)
    widths = [cell_len(line) for line in lines]
    assert max(widths) <= 100
    if len(shown.source) <= 40:
        assert len(set(widths)) == 1


def test_a_long_source_is_shown_in_panels_that_repeat_the_target_words() -> None:
    lines = SIZES["a source past the terminal's width"].terminal(color=False).splitlines()
    assert [cell_len(line) for line in lines if line.startswith("xxx")] == [99, 99, 99, 13 + 2]
    assert sum(line.lstrip().startswith("y ") for line in lines) == 4


def test_the_rows_are_target_words_and_the_tooltip_names_both() -> None:
    drawing = Picture(["ich", "<b>&"], ["I"], [[0.25, 0.834]]).svg()
    titles = [cell[0].text for cell in ElementTree.fromstring(drawing).iter(f"{SVG}rect")]
    assert titles == ["I ← ich: 0.25", "I ← <b>&: 0.83"]


def test_a_small_picture_in_a_terminal_looks_like_this() -> None:
    shown = Picture(["ab", "我", "e\u0301"], ["x", "签名"], [[0, 0.5, 1], [0.25, 0.75, 0]], "head 1")
    assert shown.terminal(color=False).splitlines() == [
        "head 1",
        "     a     ",
        "     b 我é ",
        "   x   ▒▒██",
        "签名 ░░▓▓  ",
    ]


def test_grey_steps_of_a_terminal_run_from_black_to_white() -> None:
    text = Picture(["a", "b", "c"], ["x"], [[0, 0.5, 1]]).terminal(color=True)
    assert text.splitlines()[-1] == "x " + "".join(f"\x1b[48;5;{grey}m  \x1b[0m" for grey in (232, 244, 255))


def test_long_labels_are_cut_with_a_mark() -> None:
    text = picture(["w" * 50], ["v" * 120]).terminal(color=False)
    assert "…" in text
    assert "⋮" in text
    assert len(text.splitlines()) == 20 + 1


def test_a_weight_may_miss_its_range_by_rounding_only() -> None:
    drawing = Picture(["a", "b"], ["c"], [[1.0004, -0.0004]]).svg()
    assert 'fill="#ffffff"><title>c ← a: 1.00' in drawing
    assert 'fill="#000000"><title>c ← b: 0.00' in drawing


@pytest.mark.parametrize(("weights", "message"), [([[0.5], [1.5]], r"'c'.* 1\.5"), ([[math.nan], [1.0]], "'b'.* nan")])
def test_weights_that_no_softmax_leaves_are_refused(weights: list[list[float]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Picture(["a"], ["b", "c"], weights)
