"""Extractive question answering: the words of a document that answer a question."""

from regard.tasks.labelled.config import labelled

SPEC = labelled("spans", "question answerers", metrics=("answer_f1", "exact_match"))
