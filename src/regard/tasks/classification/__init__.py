"""Classification: a label for a text or a pair of texts."""

from regard.tasks.labelled.config import labelled

SPEC = labelled("classification", "classifiers", "classify", metrics=("accuracy", "f1", "matthews"))
