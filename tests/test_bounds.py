"""No setting of a recipe or a model is without bounds, and no model is built that memory cannot hold."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from regard import bounds
from regard.bounds import ANY, BOUNDS, check_memory
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig
from regard.tasks.registry import TASKS


def configs(schema: Any) -> Iterator[type]:
    """All dataclasses in a type."""
    if is_dataclass(schema):
        yield schema  # type: ignore[misc]
        for hint in typing.get_type_hints(schema).values():
            yield from configs(hint)
    for inner in typing.get_args(schema):
        yield from configs(inner)


CONFIGS = {
    each
    for spec in TASKS.values()
    for schema in (spec.recipe, spec.models, type(spec.search))
    for each in configs(schema)
}
NUMBERS = sorted(
    (
        (config.__name__, field.name, config)
        for config in CONFIGS
        for field in fields(config)  # type: ignore[arg-type]
        if {int, float} & {(hint := typing.get_type_hints(config)[field.name]), *typing.get_args(hint)}
    ),
    key=lambda each: each[:2],
)


def test_there_are_numbers_to_check() -> None:
    assert len(NUMBERS) > 100
    assert {name for _, name, _ in NUMBERS} >= {"width", "minutes", "lr", "max_ratio", "vocabulary", "num_layers"}


@pytest.mark.parametrize(("config", "name", "kind"), NUMBERS)
def test_every_number_of_every_setting_is_finite_and_bounded(config: str, name: str, kind: Any) -> None:
    blank = object.__new__(kind)
    least, most = (f"{bound:,.12g}" for bound in BOUNDS.get(name, ANY))
    for field in fields(kind):  # as if all others were right
        object.__setattr__(blank, field.name, None)
    for value in (math.nan, math.inf, -math.inf, 10**31, 1e300, -(10**400)):
        object.__setattr__(blank, name, value)
        with pytest.raises(UserError, match=rf"^{name} .* {re.escape(least)} .*{re.escape(most)}"):
            blank.__post_init__()


def test_bounds_belong_to_settings_that_there_are() -> None:
    inner = {"memory_width", "own_head_width", "input_width", "projection"}  # of parts of models
    assert set(BOUNDS) <= {name for _, name, _ in NUMBERS} | inner


def test_a_model_that_memory_cannot_hold_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"weights.*\d GB.*\d GB.*width, hidden"):
        build(GptConfig(vocabulary=1 << 22, width=1 << 18, hidden=1 << 18, num_layers=256))
    monkeypatch.setattr(bounds, "memory", lambda: 800)
    check_memory([(10, 10)])
    with pytest.raises(UserError, match="101 .*GB"):
        check_memory([(10, 10), (1,)])
