"""The alignment of a trained model: which of its heads aligns best, and what that one says of a pair."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from regard.engine.engine import Rows
from regard.engine.explain import Explanation
from regard.errors import UserError
from regard.files import read_regular, sealed, unsealed, write
from regard.metrics.alignment import Gold, Links, Weights, error_rates, links
from regard.tasks.runnable import Tick, ignore
from regard.tasks.translation.runtime import Output, Translator

FILE = "alignment.json"
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
    def of(folder: Path) -> "Reading":
        """The one kept with a model, or the default."""
        path = folder / FILE
        try:
            stored = unsealed(json.loads(read_regular(path, 1 << 20))) if path.exists() else {}
            return TypeAdapter(Reading).validate_python(stored)
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise UserError(f"{path}: cannot be read; delete it, or make it again with `choose_head`") from error

    def keep(self, folder: Path) -> None:
        write(folder / FILE, sealed(asdict(self)))

    def __str__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        return f"{self.site or 'last cross-attention'}, {head}" + (", one step later" if self.later else "")


class Aligned:
    """What a model looks at for given outputs, by words: for each text and place weights (H, T, S)."""

    def __init__(self, model: Translator, texts: Sequence[str], outputs: Rows, tick: Tick = ignore) -> None:
        self.maps = list[dict[Place, Weights]]()
        for told in model.explained(texts, outputs):
            self.maps.append({place: _by_words(model, told, place) for place in crossing(told)})
            tick(len(self.maps))

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
        chosen = [_chosen(maps, reading)[None] for maps in self.maps]
        return float(error_rates(chosen, gold)[0, int(reading.cover)])

    def links(self, number: int, reading: Reading) -> Links:
        """Of one of the texts and its output."""
        return links(_chosen(self.maps[number], reading), reading.cover)


def line_links(model: Translator, outputs: Sequence[Output], reading: Reading) -> Iterator[Links]:
    """Of each line and its output; where parts were translated one by one, words are counted through. No pair's weights
    outlive its pass."""
    parts = [part for output in outputs for part in output.parts]
    explained = model.explained(parts, [tokens for output in outputs for tokens in output.tokens])
    for output in outputs:
        found, sources, targets = set(), 0, 0
        for part, told in zip(output.parts, explained, strict=False):
            own = [place for place in crossing(told) if place == (reading.site or place[0], reading.later)]
            chosen = _chosen({place: _by_words(model, told, place) for place in own[-1:]}, reading)
            found |= {(sources + i, targets + j) for i, j in links(chosen, reading.cover)}
            sources += len(part.split())
            targets += len(model.tokenizers.target.decode(told.target).split())
        yield frozenset(found)


def crossing(told: Explanation) -> list[Place]:
    """Where a target looks at its source, the last layer last."""
    if not told.across:
        raise UserError("this model does not look across from a target to a source; train one with attention")
    return [(site, later) for later in (False, True) for site in told.across]


def _chosen(maps: dict[Place, Weights], reading: Reading) -> Weights:
    place = reading.site or [site for site, _ in maps][-1], reading.later
    if place not in maps or (reading.head or 0) >= len(maps[place]):
        raise UserError(f"{FILE} names {reading}, which this model lacks; make it again by evaluate with `choose_head`")
    return _and_mean(maps[place])[-1 if reading.head is None else reading.head]


def _and_mean(weights: Weights) -> Weights:
    return np.concatenate((weights, weights.mean(0, keepdims=True)))


def _by_words(model: Translator, told: Explanation, place: Place) -> Weights:
    """Without the end marks and the tag, which are no words."""
    rows, columns = model.tokenizers.target.words(told.target), model.tokenizers.text.words(told.source)
    first, last = 0 if model.tag is None else 1, -1 if told.target[-1] == model.end else None
    site, later = place
    moved = replace(told, maps={site: told.maps[site].roll(-1, 1)}) if later else told
    return moved.merged(site, rows, columns)[:, :last, first:-1].numpy()
