"""Language modelling: what follows a text."""
