"""Bounds of all settings, whether they come from a recipe, a config.json or Python: no number is without one."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

from regard.errors import UserError

LONGEST = 4096  # characters of a text, as of a path
NO_TEXT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # the other surrogates stand for bytes of a path
ANY = (-1e9, 1e9)  # numbers that have no bounds of their own
NAMED: dict[tuple[float, float], str] = {  # settings by their bounds; the upper ones are beyond any single machine
    (1, 1 << 18): "width hidden embedding memory_width input_width head_width own_head_width score_hidden projection",
    (1, 1 << 12): "num_heads num_kv_heads size num_best stack",
    (1, 256): "num_layers encoder_layers decoder_layers",
    (0, 1 << 12): "segments lora_rank frozen_layers ahead features",
    (0, 1 << 22): "vocabulary source_vocabulary target_vocabulary sampled_softmax",
    (1, 1 << 20): "max_length context top_k",
    (1, 100_000): "evaluations checkpoints accumulate",
    (1, 1e9): "steps limit patience batch_tokens",
    (0, 1e9): "clip warmup lm_loss_weight weight_decay max_ratio never mask",
    (-1, 1e9): "start end",
    (0, 0.999999): "dropout attention_dropout hidden_dropout label_smoothing",
    (1e-9, 1e6): "minutes epochs lr",  # two years
    (0, 1): "norm_eps",
    (0, 1e6): "temperature",
    (1, 1e12): "base",
    (-10, 10): "length_penalty",  # 10^6 tokens to this power are still a float
    (-(1 << 63), (1 << 63) - 1): "seed",
    (-1e30, 1e30): "center spread",  # of labels, which may be in any unit
}
BOUNDS = {name: bounds for bounds, names in NAMED.items() for name in names.split()}


def check_bounds(settings: Any) -> None:
    """Raise for a number that is not finite or out of bounds, and for text that cannot be a path."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            check_bound(field.name, item)


def check_bound(name: str, value: Any) -> None:
    """The same for one setting; what is neither number nor text has no bound."""
    if isinstance(value, int | float):
        least, most = BOUNDS.get(name, ANY)
        if not least <= value <= most:  # nor is NaN
            shown = str(value)[:20] if abs(value) > 1e30 else f"{value:,}".removesuffix(".0")
            raise UserError(f"{name} {shown} is outside {least:,.12g} to {most:,.12g}; use a number between")
    elif isinstance(value, str) and (len(value) > LONGEST or NO_TEXT.search(value)):
        shown = f"{value[:40]!a}, {len(value):,} characters,"
        raise UserError(f"{name} {shown} is longer than {LONGEST:,} or holds what no text or path does; shorten it")


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
