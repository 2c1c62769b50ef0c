"""Labels that stay where they are put: how wide a text is, in columns and in pixels; and the paper for them."""

import re
import unicodedata
from html import escape

from rich.text import Text

DOTTED_CIRCLE = "\u25cc"  # carries a combining mark that comes without a letter
CONTROLS = {code: 0x2400 + code for code in range(0x20)}  # have pictures, such as ␊ and ␛
UNSHOWN = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
NARROW, BROAD = set("iljtfrI|!.,:;'`()[] "), set("mwMW@%—…+=<>~^#&QOGNDHU")


def visible(text: str) -> str:
    """The text with stand-ins for what terminals would obey and XML does not allow, such as a line's end."""
    return UNSHOWN.sub("\ufffd", unicodedata.normalize("NFC", text).translate(CONTROLS))


def clusters(text: str) -> list[str]:
    """What a terminal draws, letter by letter with its marks; without joiners and selectors, on which they differ."""
    found: list[str] = []
    for char in visible(text):
        kind = unicodedata.category(char)
        if kind == "Cf" or "\ufe00" <= char <= "\ufe0f":
            continue
        if kind in ("Mn", "Me") or unicodedata.combining(char):
            found[-1:] = [(found[-1] if found else DOTTED_CIRCLE) + char]
        else:
            found.append(char)
    return found


def fit(text: str, room: int) -> str:
    """As much of a text as fits so many columns, with an ellipsis where it is cut, filled up on the left."""
    label = Text("".join(clusters(text)))
    label.truncate(room, overflow="ellipsis")
    return " " * (room - label.cell_len) + label.plain


def pixels(text: str, size: float) -> float:
    """No less than the width of a text in any common sans-serif; DejaVu Sans, the widest, gave the numbers."""
    return size * sum(_em(cluster[0]) for cluster in clusters(text))


def drawing(width: float, height: float, title: str, body: list[str]) -> str:
    """An SVG on white paper, of a size in pixels."""
    w, h = round(width), round(height)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
    svg += f'font-family="sans-serif" font-size="12">\n<title>{markup(title)}</title>'
    return "\n".join([svg, f'<path d="M0 0H{w}V{h}H0Z" fill="#ffffff"/>', *body, "</svg>\n"])


def markup(text: str) -> str:
    """A text as it may stand in XML."""
    return escape(visible(text))


def _em(char: str) -> float:
    if char in NARROW:
        return 0.42
    if char > "\U0001f000":  # emoji
        return 1.3
    if char in BROAD or char > "\u024f":
        return 1.05
    return 0.78 if char.isupper() else 0.66
