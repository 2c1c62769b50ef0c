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
  dropout: 0.15
  tied: all  # word tables of source, target and output are one; output or none for separate tokenizers
train:
  minutes: 10  # or steps: 5000
  lr: 0.003  # at its peak
  metric: bleu  # or chrf, exact_match, word_error_rate, bleu_tokenized: what the best model is best at
"""
LANGUAGE = """\
# A model that goes on with a text. Whatever is left out has a default; the whole recipe is stored with the model.
task: language
data:
  train: [{file: book.txt}]  # running text, plain or .gz; or {corpus: wikitext2/train}
  hold_out: 0.1  # of the characters, the last ones, to validate on; or name others by valid: [{file: other.txt}]
  documents: file  # or paragraph, line: what is a text of its own
  tokenizer: {kind: bpe, vocabulary: 6000}  # or unigram, words, characters
  context: 256  # tokens that are seen at once
model:
  kind: gpt  # or recurrent_text
  width: 192
  num_layers: 4
  dropout: 0.1  # more, the more often the same text is seen
train:
  minutes: 30  # or steps: 5000
  lr: 0.002  # at its peak
"""
MASKED = """\
# An encoder, which fills blanks and makes vectors. Whatever is left out has a default; the whole recipe is stored with
# the model.
task: masked
data:
  train: [{file: book.txt}]  # running text, plain or .gz; or {corpus: wikitext2/train}
  hold_out: 0.1  # of the characters, the last ones, to validate on; or name others by valid: [{file: other.txt}]
  tokenizer: {kind: bpe, vocabulary: 6000}  # or unigram, words
  context: 128  # tokens that are seen at once
  masked: 0.15  # share of them that has to be guessed
  whole_words: false  # true: all pieces of a word together
model:
  width: 192
  num_layers: 4
  next_sentence: false  # true: it also learns whether one part of a text follows another
train:
  minutes: 30  # or steps: 5000
  lr: 0.002  # at its peak
"""
BIDIRECTIONAL = """\
# A language model that reads both ways, for vectors. Whatever is left out has a default; the whole recipe is stored
# with the model.
task: bidirectional
data:
  train: [{file: book.txt}]  # running text, plain or .gz; or {corpus: wikitext2/train}
  hold_out: 0.1  # of the characters, the last ones, to validate on; or name others by valid: [{file: other.txt}]
  tokenizer: {kind: bpe, vocabulary: 6000}  # or unigram, words
  context: 64  # tokens that are seen at once
model:
  embedding: 192
  width: 192  # of each direction
  num_layers: 2
train:
  minutes: 30  # or steps: 5000
  lr: 0.003  # at its peak
"""
READER = """\
# A model that {does}. Whatever is left out has a default; the whole recipe is stored with the model.
task: {task}
data:
  train: [{{file: {file}}}]  # {layout}
  hold_out: 0.1  # of the examples, to validate on; or name others by valid: [{{file: other.tsv}}]
  max_length: 128  # tokens of an example that are read
model:
  base: path/to/a/bert  # an encoder or language model to begin with, Regard's or in Hugging Face's layout
train:
  passes: 3  # over the examples; or minutes: 10
  lr: 0.0001  # at its peak; ten times as much where nothing is begun with
  lora: 0  # 8, say: most weights stay as they are, and less memory is needed
"""
READERS = {  # what each does, its file, and what that holds
    "classification": ("labels texts", "train.tsv", "text, tab, label; or two texts and a label; or a .jsonl"),
    "regression": ("tells numbers of texts", "train.tsv", "text, tab, number; or two texts and a number; or a .jsonl"),
    "choice": (
        "chooses",
        "train.jsonl",
        '{"text": "He froze.", "choices": ["He lit a fire.", "He sang."], "label": 0}',
    ),
    "tagging": ("tags words", "train.conll", "a word, a space, its tag on each line; a blank line between sentences"),
    "spans": ("finds answers in documents", "train.json", "as SQuAD has it"),
}
RECIPES = {"translation": TRANSLATION, "language": LANGUAGE, "masked": MASKED, "bidirectional": BIDIRECTIONAL}
for _task, (_does, _file, _layout) in READERS.items():
    RECIPES[_task] = READER.format(task=_task, does=_does, file=_file, layout=_layout)


def init(task: str) -> None:
    if task not in RECIPES:
        raise UserError(f"no task is called {task!r}; choose {', '.join(RECIPES)}")
    print(RECIPES[task], end="")
