"""What `regard train --source A --target B`, or `--text A`, decides by itself, after a look at the data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from regard.data.config import PairsConfig, TokenizerKind
from regard.data.text import Pair, count_lines, lines, pairs
from regard.errors import UserError
from regard.progress import Progress
from regard.tasks.prepare import WHILE
from regard.train.config import BUDGETS, AnyRecipe, Recipe, parse_recipe, read_recipe

LOOKED_AT = 20_000  # pairs, evenly over all
HELD_OUT, HELD_TOKENS = 1_000, 20_000  # pairs to validate on at most, and their target tokens
FEW = 1_000  # pairs, below which there is a warning
SYMBOLS = 300  # different words at most of a notation, such as phones or digits
SPEED = 6_000  # target tokens a second that the smaller model trains on, about, on two cores
LONG = 12  # passes over the data, from which on a deeper model pays
LEAST_TEXT, HELD_CHARACTERS = 2_000, 200_000  # characters to train on at least, and to validate on at most
SINGLE = 1.2  # words on a line on average, up to which lines are words and no sentences


@dataclass(frozen=True)
class Side:
    """One side of the pairs, by a sample."""

    kind: TokenizerKind
    words: float
    """On a line, on average."""
    letters: float
    """Likewise."""
    long: int
    """Letters of a line that is longer than 99 of 100 others."""

    @staticmethod
    def of(texts: Sequence[str]) -> Side:
        words = [word for text in texts for word in text.split()]
        lengths = sorted(map(len, texts))
        each = len(words) / len(texts)
        kind: TokenizerKind = "bpe"
        if each <= SINGLE:
            kind = "characters"
        elif len(set(words)) <= SYMBOLS and len(words) > 20 * SYMBOLS:
            kind = "words"
        return Side(kind, each, sum(lengths) / len(texts), lengths[len(texts) * 99 // 100])

    @property
    def tokens(self) -> float:
        """On a line, on average."""
        return {"characters": self.letters, "words": self.words, "bpe": 1.3 * self.words}[self.kind] + 1

    @property
    def longest(self) -> int:
        """Tokens of nearly all lines."""
        return int(self.long * self.tokens / max(self.letters, 1.0) * 1.5) + 1


@dataclass(frozen=True)
class Asked:
    """What the command line says of data and settings: a recipe, or two files and perhaps two to validate on, or one of
    running text."""

    path: Path | None
    source: Path | None
    target: Path | None
    valid_source: Path | None
    valid_target: Path | None
    text: Path | None
    minutes: float | None
    settings: Sequence[str]

    def __post_init__(self) -> None:
        files = {"text": self.text, "source": self.source, "target": self.target}
        files |= {"valid-source": self.valid_source, "valid-target": self.valid_target}
        given = [f"--{name}" for name, file in files.items() if file is not None]
        if self.path is not None and given:
            raise UserError(f"a recipe and {' and '.join(given)}; the recipe names its files, so give one or the other")
        if self.path is None and not given:
            raise UserError("nothing to train on; give a recipe, or --source FILE and --target FILE, or --text FILE")
        if self.text is not None and len(given) > 1:
            raise UserError(f"--text and {given[1]}; a language model learns from --text, a translator from the others")
        if self.path is None and self.text is None and (self.source is None or self.target is None):
            lacks = "source" if self.source is None else "target"
            raise UserError(f"--{lacks} is missing; --source FILE and --target FILE belong together, line by line")
        if self.source is not None and self.source == self.target:
            raise UserError(f"--source and --target are both {self.source}; give the text and its translation")
        if self.minutes is not None and self.minutes <= 0:
            raise UserError(f"--minutes {self.minutes:g} leaves no time; give 1 or more")
        if (self.valid_source is None) != (self.valid_target is None):
            raise UserError("one of --valid-source and --valid-target is missing; give both")

    @property
    def folder(self) -> Path:
        """Where the run goes if nobody says so."""
        given = (self.path, self.text, self.source, self.target)
        return Path("runs") / "-".join(path.stem for path in given if path)

    def corpora(self) -> tuple[Sequence[PairsConfig], Sequence[PairsConfig]]:
        """To train on, and to validate on."""
        if self.path is not None:
            data = self.translation().data
            return data.train, data.valid
        train = [PairsConfig(source=str(self.source), target=str(self.target))]
        if self.valid_source is None:
            return train, []
        return train, [PairsConfig(source=str(self.valid_source), target=str(self.valid_target))]

    def translation(self) -> Recipe:
        """The recipe, of pairs."""
        recipe, _ = self.recipe()
        assert isinstance(recipe, Recipe)
        return recipe

    def recipe(self) -> tuple[AnyRecipe, list[str]]:
        """The recipe, and what was decided in it and why."""
        if self.path is not None:
            if self.minutes is None:
                return read_recipe(self.path, self.settings), []
            plain = read_recipe(self.path, self.settings)
            others = [f"train.{name}=null" for name in BUDGETS if name != "minutes" and hasattr(plain.train, name)]
            return read_recipe(self.path, [*self.settings, f"train.minutes={self.minutes}", *others]), []
        if self.text is not None:
            chosen, told = text_starter(self.text, self.minutes)
        else:
            (train,), valid = self.corpora()
            chosen, told = starter(train, valid[0] if valid else None, self.minutes)
        return parse_recipe(json.dumps(chosen), "the command line", self.settings), told


def starter(train: PairsConfig, valid: PairsConfig | None, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """A recipe: tokenizers by what lines hold, their size and the time by how much there is; and that in words."""
    total = count_lines(train)
    sample = _sample(train, total)
    total = total or len(sample)
    source, target = Side.of([pair.source for pair in sample]), Side.of([pair.target for pair in sample])
    joint = source.kind == target.kind == "bpe"
    words = total * (source.words + target.words)
    vocabulary = int(min(24_000, max(1_000, round(7 * sqrt(words), -2))))
    minutes = minutes or round(min(60.0, max(2.0, words / 25_000)))
    passes = minutes * 60 * SPEED / (total * target.tokens)
    tokenizers = [{"kind": side.kind, "vocabulary": vocabulary} for side in (source, target)]
    data: dict[str, Any] = {"train": [_given(train)], "tokenizer": tokenizers[0]}
    if not joint:
        data["target_tokenizer"] = tokenizers[1]
    if valid is not None:
        data["valid"] = [_given(valid)]
    else:
        data["hold_out"] = round(min(0.1, min(HELD_OUT, HELD_TOKENS / target.tokens) / total), 6)
    data["max_length"] = min(1024, max(64, source.longest, target.longest))
    metric = "bleu" if target.kind == "bpe" else "exact_match"
    model, pace, name = _model(passes, joint, source.kind == "characters")
    recipe = {"data": data, "model": model, "train": {"minutes": minutes, "metric": metric, **pace}}
    kinds = {"characters": "characters", "words": "words", "bpe": f"{vocabulary:,} sub-words"}
    told = [
        f"{total:,} pairs, {source.words:.1f} and {target.words:.1f} words a line",
        f"read as {kinds[source.kind]}" + (" of both sides" if joint else f", written as {kinds[target.kind]}"),
        f"{name}, dropout {model['dropout']:g}: about {passes:,.1f} passes over the data are expected",
        f"about {minutes:g} minutes (--minutes for more or less); best means {metric}"
        + ("" if valid else f" on {data['hold_out']:.1%} of the pairs, held out"),
    ]
    if total < FEW:
        told.append(f"so few pairs teach next to nothing; a translator wants thousands, better {10 * FEW:,} or more")
    return recipe, told


def _model(passes: float, joint: bool, letters: bool) -> tuple[dict[str, Any], dict[str, Any], str]:
    """For few passes over the data a small model and many small updates; docs/first-steps.md has what was tried."""
    short = passes < LONG
    model: dict[str, Any] = {"tied": "all" if joint else "output"}
    model["dropout"] = 0.0 if short else round(min(0.25, passes / 200), 2)  # more, the more often the same is seen
    pace: dict[str, Any] = {"optimizer": "adam", "batch_tokens": 512, "lr": 0.003}
    if letters:  # of a word
        model |= {"kind": "recurrent", "embedding": 128, "width": 256 if short else 320, "encoder_layers": 2}
        model |= {"attention": {"score": "bilinear", "query": "current"}}
        return model, pace, f"an LSTM of 2 + 1 layers of width {model['width']} with attention"
    layers = 2 if short else 3
    model |= {"encoder_layers": layers, "decoder_layers": layers, "width": 128 if short else 192, "num_heads": 4}
    model |= {"hidden": 384 if short else 512, "placement": "pre", "position": {"kind": "rotary"}}
    name = f"a Transformer of {layers} + {layers} layers of width {model['width']}"
    return model, pace if short else {**pace, "batch_tokens": 1024, "lr": 0.002}, name


def text_starter(path: Path, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """A recipe for a language model of sub-words: larger, and with dropout, if it will see the text often."""
    total = sum(len(line) + 1 for line in lines(path, strict=True))
    if total < LEAST_TEXT:
        raise UserError(f"{path}: {total:,} characters teach nothing; give {LEAST_TEXT:,} or more, better a million")
    minutes = minutes or round(min(60.0, max(2.0, total / 100_000)))
    vocabulary = int(min(16_000, max(500, round(sqrt(2 * total), -2))))
    short = minutes * 60 * SPEED / (total / 3.5) < LONG  # about so many characters make a token
    size = {"width": 128, "hidden": 340, "num_layers": 3} if short else {"width": 192, "hidden": 512, "num_layers": 4}
    held = round(min(0.1, HELD_CHARACTERS / total), 6)
    data = {"train": [{"file": str(path)}], "hold_out": held, "context": 128}
    data["tokenizer"] = {"kind": "bpe", "vocabulary": vocabulary, "normalise": "none"}
    model = {**size, "num_heads": 4, "dropout": 0.0 if short else 0.2}
    pace = {"minutes": minutes, "optimizer": "adam", "batch_tokens": 1024, "lr": 0.004 if short else 0.003}
    told = [
        f"{total:,} characters, read as {vocabulary:,} sub-words; the last {held:.1%} are held out",
        f"a Llama-shaped model of {size['num_layers']} layers of width {size['width']}, dropout {model['dropout']:g}",
        f"about {minutes:g} minutes (--minutes for more or less); best means the lowest loss on what is held out",
    ]
    return {"task": "language", "data": data, "model": model, "train": pace}, told


def _sample(train: PairsConfig, total: int) -> list[Pair]:
    every, chosen = max(1, total // LOOKED_AT), []
    with Progress(total, "look at the data") if total > WHILE else nullcontext() as progress:
        for number, pair in enumerate(pairs(train)):
            if number % every == 0:
                chosen.append(pair)
                if progress is not None:
                    progress.update(number)
    return chosen


def _given(config: PairsConfig) -> dict[str, str]:
    return {name: value for name, value in asdict(config).items() if value is not None}
