"""Classification: a label for a text or a pair of texts."""

from dataclasses import dataclass
from typing import Literal

from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.spec import labelled


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(LabelledRecipe):
    """A classifier."""

    task: Literal["classification"] = "classification"


SPEC = labelled("classification", "classifiers", ClassificationRecipe, "classify")
