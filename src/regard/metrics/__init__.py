"""Scores of outputs against references, and whether a difference between two systems is real."""
