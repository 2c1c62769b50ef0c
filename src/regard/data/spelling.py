"""What the symbols of a tokenizer spell, as bytes, and what those show and mean."""

from __future__ import annotations

from itertools import accumulate

# GPT-2's alphabet: a visible byte stands for itself, the others follow from U+0100 on.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
BYTES = {chr(b): b for b in _VISIBLE} | {chr(0x100 + n): b for n, b in enumerate(_HIDDEN)}


def label(spelled: bytes) -> str:
    """Something to print: a space shows as ▁, part of a character as its bytes, such as <C3>."""
    try:
        text = spelled.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in spelled)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def word_numbers(spelled: list[bytes]) -> list[int]:
    """The word that each piece ends in; white space belongs to the word after it."""
    numbers: list[int] = []  # of each byte
    word, inside = 0, False
    for character in b"".join(spelled).decode("utf-8", "surrogateescape"):
        if character.isspace():
            word, inside = word + inside, False
        else:
            inside = True
        numbers += [word] * len(character.encode("utf-8", "surrogateescape"))
    return [numbers[end - 1] if end else 0 for end in accumulate(map(len, spelled))]  # an id may spell nothing
