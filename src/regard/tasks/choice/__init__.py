"""Multiple choice: the likeliest continuation of a context."""

from dataclasses import dataclass
from typing import Literal

from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.spec import labelled


@dataclass(frozen=True, kw_only=True)
class ChoiceRecipe(LabelledRecipe):
    """A model that chooses."""

    task: Literal["choice"] = "choice"


SPEC = labelled("choice", "multiple-choice models", ChoiceRecipe, "classify")
