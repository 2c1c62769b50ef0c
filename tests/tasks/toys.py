"""Little readers: every kind of trunk, every question, and a few examples of each."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.models.build import build
from regard.models.config import BertConfig, ElmoConfig, GptConfig, ReaderConfig, RecurrentTextConfig
from regard.tasks.labelled.config import ReadTrainConfig
from regard.tasks.labelled.layout import Batch, Layout
from regard.tasks.labelled.start import reader_for, settle_reader
from regard.tasks.labelled.task import Reading

SHAPE: dict[str, Any] = {"width": 8, "hidden": 12, "num_heads": 2, "num_layers": 2, "dropout": 0.1}
ROTARY = PositionConfig(kind="rotary", layout="halves")
READERS: dict[str, dict[str, Any]] = {
    "bert": {"trunk": BertConfig(**SHAPE)},
    "bert-mean": {"trunk": BertConfig(**SHAPE, placement="pre", position=ROTARY, segments=0), "pooling": "mean"},
    "gpt": {"trunk": GptConfig(**SHAPE)},
    "gpt-untied": {"trunk": GptConfig(**SHAPE, placement="pre", position=ROTARY, tied=False, num_kv_heads=1)},
    "recurrent_text": {"trunk": RecurrentTextConfig(embedding=6, width=10, num_layers=2, dropout=0.1)},
    "gru-untied": {"trunk": RecurrentTextConfig(embedding=6, width=6, cell="gru", tied=False)},
    "elmo": {"trunk": ElmoConfig(embedding=6, width=5, num_layers=2, dropout=0.1)},
}
DECODERS = [name for name in READERS if not name.startswith(("bert", "elmo"))]

TEXTS = ["the cat sat on the mat", "a dog barks at the cat", "", "mat", "the dog sat, and the cat sat on a dog"]
DOCUMENT = "The first cat sat on a mat. Then came a dog, and it barked; so the cat went away for good."
EXAMPLES: dict[str, list[Example]] = {
    "classification": [Example((text,), label, 1) for text, label in zip(TEXTS, "abcab", strict=True)],
    "pairs": [Example(both, label, 1) for *both, label in zip(TEXTS, TEXTS[::-1], "abcab", strict=True)],
    "regression": [Example(both, x, 1) for *both, x in zip(TEXTS, TEXTS[1:], [1.5, 3.0, -2.0, 8.0], strict=False)],
    "choice": [
        Example(("the cat", "sat on the mat", "barks"), 1, 1),
        Example(("a dog", "sat", "", "barks at the cat and the dog", "mat"), 2, 2),
        Example(("", "mat", "dog"), 0, 3),
    ],
    "tagging": [
        Example(("the", "cat", "sat"), ("D", "N", "V"), 1),
        Example(("dog",), ("N",), 2),
        Example(("the", "dog", "barked", "at", "an", "unbelievable", "cat", "yesterday"), tuple("DNVPDANT"), 3),
    ],
    "spans": [
        Example((DOCUMENT, "who sat?"), ((4, "first cat"),), 1),
        Example((DOCUMENT, "and why did it go?"), ((41, "dog"), (4, "first")), 2),
        Example(("the cat", ""), ((0, "the cat"),), 3),
    ],
}  # fmt: skip
EXAMPLES = {name: [Example(tuple(e.texts), *e[1:]) for e in some] for name, some in EXAMPLES.items()}


@cache
def words() -> Tokenizer:
    return Tokenizer.train(iter([*TEXTS, DOCUMENT] * 2), TokenizerConfig(vocabulary=300))


def question_of(name: str) -> Any:
    return "classification" if name == "pairs" else name


def shaped(name: str, question: str, **settings: Any) -> ReaderConfig:
    """The settings of a reader by these names, with all that words and examples tell."""
    given = ReaderConfig(**{**READERS[name], **settings})
    return reader_for(given, question_of(question), words(), None, EXAMPLES[question])


def made(name: str, question: str, **settings: Any) -> Any:
    """A reader as it is trained."""
    model = build(shaped(name, question, **settings))
    settle_reader(model, auxiliary=False)
    return model


def layout(config: ReaderConfig, max_length: int = 24) -> Layout:
    return Layout(words(), config, max_length)


def reading(config: ReaderConfig, question: str, **settings: Any) -> Reading:
    some = EXAMPLES[question]
    return Reading(layout(config), some, some, training(**settings))


def training(**settings: Any) -> ReadTrainConfig:
    return ReadTrainConfig(**{"steps": 1, "batch_tokens": 2000, **settings})


def batch_of(config: ReaderConfig, question: str) -> Batch:
    return Batch.of(list(layout(config).units(EXAMPLES[question])))


def without_dropout(config: ReaderConfig) -> ReaderConfig:
    return replace(config, dropout=0.0, trunk=replace(config.trunk, dropout=0.0))
