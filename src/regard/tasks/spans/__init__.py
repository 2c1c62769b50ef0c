"""Extractive question answering: the words of a document that answer a question."""
