"""Regression: a number for a text or a pair of texts."""

from regard.tasks.labelled.config import labelled

SPEC = labelled("regression", "regressors", metrics=("pearson", "spearman"))
