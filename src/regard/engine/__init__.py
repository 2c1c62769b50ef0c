"""How a model is run."""
