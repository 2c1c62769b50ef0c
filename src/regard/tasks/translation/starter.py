"""What `regard train --source A --target B` decides by itself, after a look at the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from regard.data.config import PairsConfig, TokenizerKind
from regard.data.sample import sample

LOOKED_AT = 20_000  # pairs, evenly over all
HELD_OUT, HELD_TOKENS = 1_000, 20_000  # pairs to validate on at most, and their target tokens
FEW = 1_000  # pairs, below which there is a warning
SYMBOLS = 300  # different words at most of a notation, such as phones or digits
SPEED = 6_000  # target tokens a second that the smaller model trains on, about, on two cores
LONG = 12  # passes over the data, from which on a deeper model pays
SINGLE = 1.2  # words on a line on average, up to which lines are words and no sentences


@dataclass(frozen=True)
class Side:
    """One side of the pairs, by a sample."""

    kind: TokenizerKind
    words: float  # on a line, on average
    letters: float  # likewise
    long: int  # letters of a line that is longer than 99 of 100 others

    @staticmethod
    def of(texts: Sequence[str]) -> "Side":
        words = [word for text in texts for word in text.split()]
        lengths = sorted(map(len, texts))
        each = len(words) / len(texts)
        notation = len(set(words)) <= SYMBOLS and len(words) > 20 * SYMBOLS
        kind: TokenizerKind = "characters" if each <= SINGLE else "words" if notation else "bpe"
        return Side(kind, each, sum(lengths) / len(texts), lengths[len(texts) * 99 // 100])

    @property
    def tokens(self) -> float:
        """On a line, on average."""
        return {"characters": self.letters, "words": self.words, "bpe": 1.3 * self.words}[self.kind] + 1

    @property
    def longest(self) -> int:
        """Tokens of nearly all lines."""
        return int(self.long * self.tokens / max(self.letters, 1.0) * 1.5) + 1


def starter(train: PairsConfig, valid: PairsConfig | None, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """A recipe: tokenizers by what lines hold, their size and the time by how much there is; and that in words."""
    total, some = sample([train])
    source, target = map(Side.of, zip(*some[:: max(1, len(some) // LOOKED_AT)], strict=True))
    joint = source.kind == target.kind == "bpe"
    words = total * (source.words + target.words)
    vocabulary = int(min(24_000, max(1_000, round(7 * sqrt(words), -2))))
    minutes = minutes or round(min(60.0, max(2.0, words / 25_000)))
    passes = minutes * 60 * SPEED / (total * target.tokens)
    tokenizers = [{"kind": side.kind, "vocabulary": vocabulary} for side in (source, target)]
    data: dict[str, Any] = {"train": [_files(train)], "tokenizer": tokenizers[0]}
    if not joint:
        data["target_tokenizer"] = tokenizers[1]
    held = round(min(0.1, min(HELD_OUT, HELD_TOKENS / target.tokens) / total), 6)
    data |= {"hold_out": held} if valid is None else {"valid": [_files(valid)]}
    data["max_length"] = min(1024, max(64, source.longest, target.longest))
    metric = "bleu" if target.kind == "bpe" else "exact_match"
    model, pace, name = _model(passes, joint, source.kind == "characters")
    recipe = {"data": data, "model": model, "train": {"minutes": minutes, "metric": metric, **pace}}
    kinds = {"characters": "characters", "words": "words", "bpe": f"{vocabulary:,} sub-words"}
    told = [
        f"{total:,} pairs, {source.words:.1f} and {target.words:.1f} words a line",
        f"read as {kinds[source.kind]}" + (" of both sides" if joint else f", written as {kinds[target.kind]}"),
        f"{name}, dropout {model['dropout']:g}: about {passes:,.1f} passes over the data are expected",
        f"about {minutes:g} minutes (`minutes` for more or less); best means {metric}"
        + ("" if valid else f" on {held:.1%} of the pairs, held out"),
    ]
    if total < FEW:
        told.append(f"so few pairs teach next to nothing; a translator wants thousands, better {10 * FEW:,} or more")
    return recipe, told


def _files(pairs: PairsConfig) -> dict[str, Any]:
    return {"source": pairs.source, "target": pairs.target}


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
