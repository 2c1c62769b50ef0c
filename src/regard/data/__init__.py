"""Corpora, tokenizers, the token store and batches; free of torch."""
