"""Extractive question answering: the words of a document that answer a question."""

from dataclasses import dataclass
from typing import Literal

from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.spec import labelled


@dataclass(frozen=True, kw_only=True)
class SpansRecipe(LabelledRecipe):
    """A question answerer."""

    task: Literal["spans"] = "spans"


SPEC = labelled("spans", "question answerers", SpansRecipe)
