"""Regard: sequence-to-sequence and attention models on the machine you have."""

__version__ = "0.1.0"
