"""Multiple choice: the likeliest continuation of a context."""

from regard.tasks.labelled.config import labelled

SPEC = labelled("choice", "multiple-choice models", "classify", metrics=("accuracy",))
