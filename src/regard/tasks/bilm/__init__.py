"""Bidirectional language modelling: a language model for each direction."""
