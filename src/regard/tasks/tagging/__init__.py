"""Tagging: a tag for each word."""

from regard.tasks.labelled.config import labelled

SPEC = labelled("tagging", "taggers", "classify", metrics=("tag_accuracy", "entity_f1"))
