"""Tagging: a tag for each word."""

from dataclasses import dataclass
from typing import Literal

from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.spec import labelled


@dataclass(frozen=True, kw_only=True)
class TaggingRecipe(LabelledRecipe):
    """A tagger."""

    task: Literal["tagging"] = "tagging"


SPEC = labelled("tagging", "taggers", TaggingRecipe, "classify")
