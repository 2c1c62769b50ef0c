"""Regard: sequence-to-sequence and attention models on the machine you have."""

__version__ = "0.2.0.dev0"

from regard.api import check, compare, evaluate, load, train

__all__ = ["check", "compare", "evaluate", "load", "train"]
