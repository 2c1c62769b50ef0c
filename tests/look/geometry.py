"""Where the texts of an SVG lie, by an XML parser and the metrics of a real font."""

import re
import unicodedata
from functools import cache
from math import cos, radians, sin
from pathlib import Path
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


@cache
def _font():  # type: ignore[no-untyped-def]
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf", 12)


def width(text: str) -> float:
    """In DejaVu Sans at 12 pixels; wide characters, which it lacks, are squares."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    rest = "".join(char for char in text if unicodedata.east_asian_width(char) not in "WF")
    return float(_font().getlength(rest)) + 12 * wide


def stray_texts(drawing: str) -> list[str]:
    """Texts of which a corner lies outside the viewBox."""
    root = ElementTree.fromstring(drawing)
    _, _, right, bottom = map(float, root.attrib["viewBox"].split())
    strays = []
    for text in root.iter(f"{SVG}text"):
        x, y, said = float(text.attrib["x"]), float(text.attrib["y"]), text.text or ""
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib.get("text-anchor", "start")]
        turn = re.match(r"rotate\((-?\d+) ", text.attrib.get("transform", ""))
        angle = radians(float(turn[1])) if turn else 0.0
        start = -shift * width(said)
        for along in (start, start + width(said)):
            for down in (-10, 3):  # ascent and descent
                at_x, at_y = x + along * cos(angle) - down * sin(angle), y + along * sin(angle) + down * cos(angle)
                if not (0 <= at_x <= right and 0 <= at_y <= bottom):
                    strays.append(said)
    return strays
