"""Tagging: a tag for each word."""
