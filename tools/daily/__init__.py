"""The demo corpus: English and German sentences of daily life, made by a grammar."""
