"""Tasks: what joins a model, its data, an engine and the metrics."""
