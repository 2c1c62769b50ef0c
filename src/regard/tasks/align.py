"""The alignment of a trained model: which of its heads aligns best, and what that one says of a pair."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from regard.engine.explain import Explanation
from regard.errors import UserError
from regard.files import read_regular, write
from regard.metrics.alignment import Gold, Links, Weights, error_rates, links
from regard.tasks.translator import Output, Translator

FILE = "alignment.json"
BATCH = 64  # pairs looked at together
TOGETHER = 256  # outputs that are aligned at once
Place = tuple[str, bool]  # a site that looks across, and whether it is read one step later


@dataclass(frozen=True)
class Reading:
    """Where links are read off: by default the mean of the heads that look across last."""

    site: str | None = None
    head: int | None = None
    later: bool = False
    """Whether a word's links are those of the step after it, at which the decoder knows it."""
    cover: bool = False
    """Whether a source word that no target word has taken goes to the one that looks at it most."""

    @staticmethod
    def of(folder: Path) -> Reading:
        """The one kept with a model, or the default."""
        path = folder / FILE
        try:
            return TypeAdapter(Reading).validate_json(read_regular(path, 1 << 20)) if path.exists() else Reading()
        except (OSError, ValidationError) as error:
            raise UserError(f"{path}: cannot be read; delete it, or make it again by evaluate --choose-head") from error

    def keep(self, folder: Path) -> None:
        write(folder / FILE, json.dumps(asdict(self), indent=1).encode())

    def __str__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        return f"{self.site or 'last cross-attention'}, {head}" + (", one step later" if self.later else "")


class Aligned:
    """What a model looks at for given outputs, by words: for each text and place weights (H, T, S)."""

    def __init__(
        self,
        model: Translator,
        texts: Sequence[str],
        outputs: Sequence[Sequence[int]],
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self.maps: list[dict[Place, Weights]] = []
        for start in range(0, len(texts), BATCH):
            for told in model.explain(texts[start : start + BATCH], outputs[start : start + BATCH]):
                self.maps.append(_by_words(model, told))
            if tick is not None:
                tick(len(self.maps))
        if self.maps and not self.maps[0]:
            raise UserError("this model has no attention to align by; train one with attention")

    def best(self, gold: Sequence[Gold]) -> tuple[Reading, float]:
        """The reading with the lowest error rate, and that rate."""
        found = []
        for site, later in self.maps[0]:
            rates = error_rates([_and_mean(maps[site, later]) for maps in self.maps], gold)
            head, cover = np.unravel_index(rates.argmin(), rates.shape)
            chosen = None if head == len(rates) - 1 else int(head)
            found.append((float(rates.min()), Reading(site, chosen, later, bool(cover))))
        rate, reading = min(found, key=lambda pair: pair[0])
        return reading, rate

    def errors(self, gold: Sequence[Gold]) -> dict[str, Weights]:
        """For each place the error rates of its heads and of their mean, each at the step that says the word."""
        sites = [site for site, later in self.maps[0] if not later]
        return {site: error_rates([_and_mean(maps[site, False]) for maps in self.maps], gold)[:, 0] for site in sites}

    def error_rate(self, gold: Sequence[Gold], reading: Reading) -> float:
        chosen = [self._map(number, reading)[None] for number in range(len(self.maps))]
        return float(error_rates(chosen, gold)[0, int(reading.cover)])

    def links(self, number: int, reading: Reading) -> Links:
        """Of one of the texts and its output."""
        return links(self._map(number, reading), reading.cover)

    def _map(self, number: int, reading: Reading) -> Weights:
        maps = self.maps[number]
        site = reading.site or [site for site, _ in maps][-1]
        if (site, reading.later) not in maps or (reading.head or 0) >= len(maps[site, reading.later]):
            raise UserError(f"{FILE} names {reading}, which this model lacks; make it again by evaluate --choose-head")
        return _and_mean(maps[site, reading.later])[-1 if reading.head is None else reading.head]


def line_links(model: Translator, outputs: Sequence[Output], reading: Reading) -> Iterator[Links]:
    """Of each line and its output; where parts were translated one by one, words are counted through."""
    for start in range(0, len(outputs), TOGETHER):
        some = outputs[start : start + TOGETHER]
        pairs = [pair for output in some for pair in zip(output.parts, output.tokens, strict=True)]
        aligned, number = Aligned(model, [part for part, _ in pairs], [tokens for _, tokens in pairs]), 0
        for output in some:
            found, sources, targets = set(), 0, 0
            for part, tokens in zip(output.parts, output.tokens, strict=True):
                found |= {(sources + i, targets + j) for i, j in aligned.links(number, reading)}
                sources += len(part.split())
                targets += len(model.tokenizers.target.decode(tokens).split())
                number += 1
            yield frozenset(found)


def _and_mean(weights: Weights) -> Weights:
    return np.concatenate((weights, weights.mean(0, keepdims=True)))


def _by_words(model: Translator, told: Explanation) -> dict[Place, Weights]:
    """Without the end marks and the tag, which are no words."""
    rows, columns = model.tokenizers.target.words(told.target), model.tokenizers.source.words(told.source)
    first, last = 0 if model.tag is None else 1, -1 if told.target[-1] == model.end else None
    across = {site: weights for site, weights in told.maps.items() if site.endswith("cross")}
    found: dict[Place, Weights] = {}
    for later in (False, True):
        moved = replace(told, maps={site: weights.roll(-1, 1) for site, weights in across.items()} if later else across)
        found |= {(site, later): moved.merged(site, rows, columns)[:, :last, first:-1].numpy() for site in across}
    return found
