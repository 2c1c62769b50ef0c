"""Multiple choice: the likeliest continuation of a context."""
