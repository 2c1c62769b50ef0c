"""`regard init`: a commented recipe to start from."""

from __future__ import annotations

from regard.errors import UserError

TRANSLATION = """\
# Whatever is left out has a default; the whole recipe, defaults included, is stored with the model.
data:
  train: [{source: train.en, target: train.de}]  # a sentence a line; or {pairs: train.tsv}, or {corpus: daily/train}
  hold_out: 0.02  # of the pairs, to validate on; or name others by valid: [{source: valid.en, target: valid.de}]
  tokenizer: {kind: bpe, vocabulary: 6000}  # or unigram, words, characters; target_tokenizer: ... for one of its own
model:
  kind: transformer  # or recurrent
  width: 128
  encoder_layers: 4
  decoder_layers: 4
  num_heads: 4
  hidden: 256  # of the feed-forward layers
  dropout: 0.15
  tied: all  # word tables of source, target and output are one; output or none for separate tokenizers
train:
  minutes: 10  # or steps: 5000
  lr: 0.003  # at its peak
  metric: bleu  # or chrf, exact_match, word_error_rate, bleu_tokenized: what the best model is best at
"""
RECIPES = {"translation": TRANSLATION}


def init(task: str) -> None:
    if task not in RECIPES:
        raise UserError(f"no task is called {task!r}; choose {', '.join(RECIPES)}")
    print(RECIPES[task], end="")
