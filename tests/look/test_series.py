"""Maps of what is no text: labels of many places are thinned, and stay where they belong."""

from io import BytesIO
from xml.etree import ElementTree

import pytest
from PIL import Image

from regard.data.axes import Frames, Grid, Text, Times
from regard.look.figure import CELL, Picture, spacing
from tests.look.geometry import SVG, stray_texts
from tests.look.series import STEPS, series


@pytest.mark.parametrize("site", [None, "encoder.self"])
def test_a_drawing_of_many_steps_labels_every_tenth_where_its_cells_are(site: str | None) -> None:
    drawing = series().picture(site).svg()
    root = ElementTree.fromstring(drawing)
    cells, texts = list(root.iter(f"{SVG}rect")), list(root.iter(f"{SVG}text"))
    assert len(cells) == STEPS * (STEPS if site else 2)
    named = {text.text: text for text in texts if "transform" in text.attrib}
    assert list(named) == [f"{hour}h" for hour in range(0, 100, 5)]
    for number, text in enumerate(named.values()):
        assert 0 <= float(text.attrib["x"]) - float(cells[10 * number].attrib["x"]) <= CELL / 2
    title, *beside = [text.text for text in texts if "transform" not in text.attrib]
    assert title == "white is 0.005", "each of 200 steps gets as much"
    assert beside == (list(named) if site else ["rainy", "</s>"])
    assert stray_texts(drawing) == []


def test_a_picture_in_dots_and_one_in_a_terminal_are_thinned_alike() -> None:
    picture = series().picture("encoder.self")
    with Image.open(BytesIO(picture.png())) as image:
        assert max(image.size) < 2000  # each of 200 steps as large as a word would take 9,000
    lines = picture.terminal(color=False).splitlines()[1:]
    beside = [line.split()[0] for line in lines if line[:5].strip()]
    assert set(beside) == {f"{hour}h" for hour in range(0, 100, 5)}


def test_few_places_and_all_pieces_of_a_text_are_labelled() -> None:
    assert spacing(Text(["a"] * 500, [0] * 500)) == spacing(Times(40)) == (CELL, 1)
    assert spacing(Frames(400, 50)) == (2, 20)
    assert spacing(Grid(14, 14)) == (4, 14)  # the first of each row
    assert spacing(Grid(3, 3)) == (CELL, 1)


def test_data_say_of_what_kind_each_side_is() -> None:
    look = series()
    data = look.json()
    assert data["kinds"] == {"source": "times", "target": "text", "taken": "text"}
    assert data["source"][:2] == ["0h", "0.5h"]
    assert data["axes"] == {"decoder.cross": ["head", "target", "source"], "encoder.self": ["head", "source", "source"]}
    assert list(data["coverage"]) == ["decoder.cross"]
    page = look.page()
    assert [each["across"] for each in page["maps"]] == [True, False]
    assert page["sides"]["source"]["kind"] == "times"
    assert look.picture().target == ["rainy", "</s>"]  # across, though another map comes last


def test_a_map_of_a_series_is_as_bright_as_its_largest_weight_and_says_so() -> None:
    weights = [[0.1, 0.05, 0.0], [0.2, 0.0, 0.05]]
    picture = Picture(["0", "1", "2"], ["a", "b"], weights, "white is 0.2", (20, 1), (20, 1), 0.2)
    assert picture.svg().count('fill="#ffffff"') == 2, "the paper, and the largest weight"
    assert "white is 0.2" in picture.svg()
    assert "█" in picture.terminal(color=False)
    assert 'fill="#808080"' in picture.svg()
