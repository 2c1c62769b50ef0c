"""What `regard train --text A` decides by itself, after a look at the data."""

from math import sqrt
from pathlib import Path
from typing import Any

from regard.data.text import lines
from regard.errors import UserError

SPEED = 6_000  # tokens a second that the smaller model trains on, about, on two cores
LONG = 12  # passes over the data, from which on a deeper model pays
LEAST_TEXT, HELD_CHARACTERS = 2_000, 200_000  # characters to train on at least, and to validate on at most


def text_starter(path: Path, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """A recipe for a language model of sub-words: larger, and with dropout, if it will see the text often."""
    total = sum(len(line) + 1 for line in lines(path, strict=True))
    if total < LEAST_TEXT:
        raise UserError(f"{path}: {total:,} characters teach nothing; give {LEAST_TEXT:,} or more, better a million")
    minutes = minutes or round(min(60.0, max(2.0, total / 100_000)))
    vocabulary = int(min(16_000, max(500, round(sqrt(2 * total), -2))))
    short = minutes * 60 * SPEED / (total / 3.5) < LONG  # about so many characters make a token
    size = {"width": 128, "hidden": 340, "num_layers": 3} if short else {"width": 192, "hidden": 512, "num_layers": 4}
    held = round(min(0.1, HELD_CHARACTERS / total), 6)
    data = {"train": [{"file": str(path)}], "hold_out": held, "context": 128}
    data["tokenizer"] = {"kind": "bpe", "vocabulary": vocabulary, "normalise": "none"}
    model = {**size, "num_heads": 4, "dropout": 0.0 if short else 0.2}
    pace = {"minutes": minutes, "optimizer": "adam", "batch_tokens": 1024, "lr": 0.004 if short else 0.003}
    told = [
        f"{total:,} characters, read as {vocabulary:,} sub-words; the last {held:.1%} are held out",
        f"a Llama-shaped model of {size['num_layers']} layers of width {size['width']}, dropout {model['dropout']:g}",
        f"about {minutes:g} minutes (`minutes` for more or less); best means the lowest loss on what is held out",
    ]
    return {"task": "lm", "data": data, "model": model, "train": pace}, told
