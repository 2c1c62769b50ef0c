"""Bounds of all settings, whether they come from a recipe, a config.json or Python: no number is without one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

from regard.errors import UserError

LARGEST = 1e9  # of numbers that have no bound of their own
LONGEST = 4096  # characters of a text, as of a path
MOST: dict[str, float] = {  # by the names of settings; each is far beyond what one machine can train
    **dict.fromkeys(("width", "hidden", "embedding", "memory_width", "input_width"), 1 << 18),
    **dict.fromkeys(("head_width", "own_head_width", "score_hidden", "projection"), 1 << 18),
    **dict.fromkeys(("num_heads", "num_kv_heads", "size", "num_best", "segments", "lora"), 1 << 12),
    **dict.fromkeys(("num_layers", "encoder_layers", "decoder_layers", "frozen"), 256),
    **dict.fromkeys(("vocabulary", "source_vocabulary", "target_vocabulary", "sampled"), 1 << 22),
    **dict.fromkeys(("max_length", "context"), 1 << 20),
    **dict.fromkeys(("evaluations", "checkpoints", "accumulate"), 100_000),
    "batch_tokens": 1 << 24,
    "minutes": 1e6,  # two years
    "passes": 1e6,
    "lr": 1e3,
    "weight_decay": 1e3,
    "norm_eps": 1.0,
    "base": 1e12,
    "length_penalty": 10.0,  # 10^6 tokens to this power are still a float
    "max_ratio": 1e3,
    "seed": (1 << 63) - 1,
    "center": 1e30,  # of labels, which may be in any unit
    "spread": 1e30,
}


def check_bounds(settings: Any) -> None:
    """Raise for a number that is not finite or beyond its bound, and for text that cannot be a path."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            check_bound(field.name, item)


def check_bound(name: str, value: Any) -> None:
    """The same for one setting; what is neither number nor text has no bound."""
    if isinstance(value, int | float):
        most = MOST.get(name, LARGEST)
        if not abs(value) <= most:  # nor is NaN
            raise UserError(f"{name} {_shown(value)} is no finite number of at most {most:,.20g} in size; use less")
    elif isinstance(value, str):
        if len(value) > LONGEST:
            raise UserError(f"{name} has {len(value):,} characters; at most {LONGEST:,} are taken, so shorten it")
        try:
            odd = b"\0" in os.fsencode(value)
        except UnicodeEncodeError:
            odd = True
        if odd:
            raise UserError(f"{name} {value!a} holds a character that no text or path has; remove it")


def memory() -> int:
    """Bytes that this machine or container has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # "max" where a container has no limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text("utf-8")))
    return total


def check_memory(shapes: Iterable[tuple[int, ...]]) -> None:
    """Raise before weights are made that memory cannot hold twice in float32, with gradients or while they are read."""
    numbers, room = sum(map(prod, shapes)), memory()
    if 8 * numbers > room:
        raise UserError(
            f"{numbers:,} weights, twice in memory, need {8 * numbers / 1e9:,.1f} GB, and this machine has "
            f"{room / 1e9:,.1f} GB; lower width, hidden, the number of layers or the vocabulary"
        )


def _shown(value: float) -> str:
    text = f"{value:,}" if abs(value) < 10**30 else f"{str(value)[:20]}..."
    return text.removesuffix(".0")
