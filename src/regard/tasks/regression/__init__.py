"""Regression: a number for a text or a pair of texts."""

from dataclasses import dataclass
from typing import Literal

from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.spec import labelled


@dataclass(frozen=True, kw_only=True)
class RegressionRecipe(LabelledRecipe):
    """A regressor."""

    task: Literal["regression"] = "regression"


SPEC = labelled("regression", "regressors", RegressionRecipe)
