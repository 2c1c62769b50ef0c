"""What the tasks of running text share: the text from files, in pieces of a line with the ends of documents, as one
long row of ids, made once per run, and windows of it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.data.config import RunningText, TextDataConfig
from regard.data.examples import CORPORA, unlabelled
from regard.data.sample import chunks
from regard.data.store import stored
from regard.data.text import kept, lines
from regard.data.tokenizer import UNKNOWN, Tokenizer
from regard.engine.engine import Engine
from regard.errors import UserError
from regard.files import state
from regard.progress import Progress
from regard.rng import Key
from regard.tasks.config import BaseRecipe
from regard.tasks.report import Report
from regard.tasks.runnable import Evaluation, Runnable, Tick
from regard.tasks.running_spec import TextEvaluation
from regard.tasks.task import Direction, Shape

TEXTS = {f"wikitext2/{split}": f"wikitext2/{split}.txt" for split in ("train", "valid", "test")}
TEXTS |= {"tinyshakespeare/all": "tinyshakespeare/input.txt", "multi30k/en/train": "multi30k/raw/train.en", **CORPORA}
Piece = tuple[str, bool]  # of text, and whether a document ends with it
Ids = NDArray[Any]
M = TypeVar("M", bound=nn.Module)
REHEARSED = 20  # windows by which an evaluation is timed


@dataclass(frozen=True, eq=False)
class Text:
    """A text held out: ids, led by an end mark, and how many characters and words it has, line ends being words."""

    ids: Ids
    characters: int
    words: int


class TextTask(Generic[M]):
    """What tasks over one long row of ids share, in which an end mark follows every document."""

    counts = "tokens"
    sizes: tuple[int, ...]
    """Of the vocabulary, and what else the model's settings are sized by."""

    def __init__(self, ids: Ids, held: Text | None, context: int, batch_tokens: int, marks: int = 0) -> None:
        """`marks`: tokens of a context that are not of the text."""
        self.ids, self.held, self.context, self.rows = ids, held, context, max(1, batch_tokens // context)
        self.window = context - marks

    @property
    def about(self) -> str:
        return f"training on {len(self.ids):,} tokens, {self.rows} texts of {self.context} at once"

    @property
    def primary(self) -> tuple[str, Direction]:
        return ("loss" if self.held else "train_loss"), "lower"

    def batches(self, seed: int, epoch: int) -> list[Ids]:
        """Where the windows of each batch begin: side by side, all over the text, from another place in each epoch."""
        draw, length = Key(seed, ("windows", epoch)).generator(), len(self.ids)
        phase = int(draw.integers(min(self.window, length - self.window)))
        starts = np.arange(phase, length - self.window, self.window)
        count = max(1, (length // self.window - 1) // self.rows)  # the same in every epoch
        order = draw.permutation(len(starts))
        return [starts[order[(np.arange(self.rows) + i * self.rows) % len(order)]] for i in range(count)]

    def score(self, model: M, text: Text) -> dict[str, float]:
        """Metrics on a text."""
        raise NotImplementedError  # abstract

    def largest(self) -> Ids:
        return self.batches(0, 0)[0]

    def shape(self, name: Ids) -> Shape:
        return Shape(len(name), 0, self.context, 0, len(name) * self.context)

    def describe(self, name: Ids) -> str:
        return f"tokens from {', '.join(map(str, name[:5].tolist()))} on"

    def summary(self, recipe: BaseRecipe, report: Report) -> dict[str, str]:
        held = None if self.held is None else self.held.ids
        unknown = "not known without validation data" if held is None else f"{float((held == UNKNOWN).mean()):.2%}"
        tokens = f"{len(self.ids):,} to train on, {0 if held is None else len(held):,} to validate on"
        return {"tokens": tokens, "vocabulary": f"{self.sizes[0]:,}", "unknown tokens": unknown}

    @torch.no_grad()
    def evaluate(self, model: M, engine: Engine) -> dict[str, float]:
        return {} if self.held is None else self.score(model, self.held)

    @torch.no_grad()
    def rehearse(self, model: M, engine: Engine) -> float:
        if self.held is None:
            return 0.0
        some = replace(self.held, ids=self.held.ids[: REHEARSED * self.context])
        began = time.perf_counter()
        self.score(model, some)
        return (time.perf_counter() - began) * len(self.held.ids) / len(some.ids)


def pieces(texts: Sequence[RunningText], documents: Literal["file", "paragraph", "line"]) -> Iterator[Piece]:
    """Every line with its line end, which a document of one line goes without, as each text of a labelled corpus."""
    for text in texts:
        if text.corpus in CORPORA:
            yield from ((line, True) for line in unlabelled(text.corpus))
            continue
        path = place_of(text)
        held: str | None = None
        for line in lines(path, strict=True):
            if documents == "line":
                if line.strip():
                    yield line, True
                continue
            if held is not None:
                yield held, documents == "paragraph" and not line.strip()
            held = f"{line}\n" if documents == "file" or line.strip() else None
        if held is not None:
            yield held, True


def place_of(text: RunningText) -> Path:
    """The file of a text."""
    if text.corpus is None:
        return Path(text.file or "")
    if text.corpus not in TEXTS:
        raise UserError(f"no text is called {text.corpus!r}; known: {', '.join(TEXTS)}")
    return kept(TEXTS[text.corpus])


def files(recipe: BaseRecipe) -> list[Path]:
    """The data files that a recipe names."""
    return [place_of(corpus) for corpus in (*recipe.data.train, *recipe.data.valid)]


def tokenizer_for(config: TextDataConfig, folder: Path, marks: Sequence[str] = ()) -> Tokenizer:
    """That of the folder, or trained now, with further marks, and saved before anything else happens."""
    path = folder / "tokenizer.json"
    if path.exists():
        return Tokenizer.load(path)
    trained = Tokenizer.train((text for text, _ in _train_and_held(config)[0]), config.tokenizer, marks)
    trained.save(path)
    return trained


def ids_for(config: TextDataConfig, tokenizer: Tokenizer, folder: Path) -> Ids:
    """The text to train on as ids, memory-mapped; made once."""
    rows = lambda: ((ids, list[int]()) for ids in _encoded(tokenizer, _train_and_held(config)[0]))  # noqa: E731
    ids = stored(folder / "store", rows, vocabulary=tokenizer.vocabulary).stream
    if len(ids) <= config.context + 1:
        raise UserError(f"{len(ids):,} tokens to train on fill no context of {config.context}; give more text")
    return ids


def held_out(config: TextDataConfig, tokenizer: Tokenizer) -> Text | None:
    """The text to validate on, whole."""
    held = list(_train_and_held(config)[1])
    _parted.cache_clear()
    return text_of(tokenizer, held) if held else None


def text_of(tokenizer: Tokenizer, held: list[Piece]) -> Text:
    """Ids after an end mark, and what perplexities are counted by: characters, and words with an end of line each."""
    ids = np.array([tokenizer.end, *(i for row in _encoded(tokenizer, held) for i in row)])
    words = sum(len(text.split()) + 1 for text, _ in held)
    return Text(ids, sum(len(text) for text, _ in held), words)


def evaluated(model: Runnable, options: TextEvaluation, score: Callable[[Text, Tick], dict[str, float]]) -> Evaluation:
    """By a whole file."""
    text = text_of(model.tokenizer, list(pieces([RunningText(file=str(options.text))], "file")))
    if not text.characters:
        raise UserError(f"{options.text}: the file is empty; give one with text")
    with Progress(len(text.ids), "read") as progress:
        data = {"tokens": len(text.ids) - 1, **score(text, progress.update)}
        progress.update(len(text.ids))
    return Evaluation.of(data)


def _train_and_held(config: TextDataConfig) -> tuple[Iterable[Piece], Iterable[Piece]]:
    """The text to train on, and the text to validate on."""
    if not config.hold_out:
        return pieces(config.train, config.documents), pieces(config.valid, config.documents)
    return _parted(config, tuple(state(place_of(text).stat()) for text in config.train))


@lru_cache(maxsize=1)
def _parted(config: TextDataConfig, states: object) -> tuple[list[Piece], list[Piece]]:
    """Read once for the tokenizer, the ids and what is held out, which comes last; a piece across the border is cut."""
    whole = list(pieces(config.train, config.documents))
    left = int(sum(len(text) for text, _ in whole) * (1 - config.hold_out))  # characters to train on
    for i, (text, ends) in enumerate(whole):
        if len(text) > left:
            first = [(text[:left], False)] if left else []
            return [*whole[:i], *first], [(text[left:], ends), *whole[i + 1 :]]
        left -= len(text)
    return whole, []


def _encoded(tokenizer: Tokenizer, stream: Iterable[Piece]) -> Iterator[list[int]]:
    for chunk in chunks(stream):
        found = tokenizer.encode([text for text, _ in chunk], spaced=False)
        for ids, (_, ends) in zip(found, chunk, strict=True):
            yield [*ids, tokenizer.end] if ends else ids
