"""Labels that stay where they are put: how wide a text is, in columns and in pixels; and the paper for them."""

import unicodedata
from html import escape

DOTTED_CIRCLE = "\u25cc"  # carries a combining mark that comes without a letter
NARROW, BROAD = set("iljtfrI|!.,:;'`()[] "), set("mwMW@%—…+=<>~^#&QOGNDHU")


def visible(text: str) -> str:
    """The text with stand-ins for what terminals would obey and XML does not allow, such as a line's end."""
    return "".join(map(_stand_in, unicodedata.normalize("NFC", text)))


def clusters(text: str) -> list[str]:
    """What a terminal draws, letter by letter with its marks; without joiners and selectors, on which they differ."""
    found: list[str] = []
    for char in visible(text):
        if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f":
            continue
        if _is_mark(char):
            found[-1:] = [(found[-1] if found else DOTTED_CIRCLE) + char]
        else:
            found.append(char)
    return found


def columns(text: str) -> int:
    """Terminal columns of a text made of clusters."""
    return sum(0 if _is_mark(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def fit(text: str, room: int) -> str:
    """As much of a text as fits so many columns, with an ellipsis where it is cut, filled up on the left."""
    parts = clusters(text)
    if columns("".join(parts)) > room:
        while parts and columns("".join(parts)) > room - 1:
            parts.pop()
        parts.append("…")
    label = "".join(parts)
    return " " * (room - columns(label)) + label


def pixels(text: str, size: float) -> float:
    """No less than the width of a text in any common sans-serif; DejaVu Sans, the widest, gave the numbers."""
    return size * sum(map(_em, visible(text)))


def drawing(width: float, height: float, title: str, body: list[str]) -> str:
    """An SVG on white paper, of a size in pixels."""
    w, h = round(width), round(height)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
    svg += f'font-family="sans-serif" font-size="12">\n<title>{markup(title)}</title>'
    return "\n".join([svg, f'<path d="M0 0H{w}V{h}H0Z" fill="#ffffff"/>', *body, "</svg>\n"])


def markup(text: str) -> str:
    """A text as it may stand in XML."""
    return escape(visible(text))


def _stand_in(char: str) -> str:
    kind, code = unicodedata.category(char), ord(char)
    if kind == "Cc" and code < 0x20:
        return chr(0x2400 + code)  # the pictures of control characters, such as ␊ and ␛
    if kind in ("Cc", "Cs") or (kind == "Cn" and code & 0xFFFE == 0xFFFE) or kind in ("Zl", "Zp"):
        return "\ufffd"
    return char


def _is_mark(char: str) -> bool:
    return unicodedata.combining(char) > 0 or unicodedata.category(char) in ("Mn", "Me")


def _em(char: str) -> float:
    if _is_mark(char) or unicodedata.category(char) == "Cf":
        return 0.0
    if char in NARROW:
        return 0.42
    if char > "\U0001f000":  # emoji
        return 1.3
    if char in BROAD or char > "\u024f":
        return 1.05
    return 0.78 if char.isupper() else 0.66
