"""What the service has: its models, in what directions they translate, and who does the work."""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import LINE, Desk, RefusedError
from regard.serve.wire import own_names

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian",
    "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
PAIR = re.compile(r"(?<![a-z])([a-z]{2,3})-([a-z]{2,3})(?![a-z])")
EMBEDDED = {"daily": ("en", "de")}
MOST = 1 << 20  # bytes of a recipe
Languages = tuple[str, str]
BLANK: dict[str, Any] = {"text": "", "score": 0, "log_prob": 0, "tokens": (), "parts": (), "ids": ()}


@dataclass(frozen=True, eq=False)
class Place:
    """A model: one worker says what it says, another looks at it, which needs PyTorch and starts when it is asked."""

    name: str
    folder: Path
    languages: Languages | None
    desk: Desk
    looker: Desk

    async def look(self, how: dict[str, Any], texts: list[str]) -> Any:
        await self.looker.open()
        return await self.looker.ask(how, texts)

    async def warm(self) -> None:
        """Somebody will want to look soon."""
        with suppress(UserError):  # it is told to whoever asks
            await self.looker.open()


@dataclass(frozen=True)
class Direction:
    place: Place
    source: str
    target: str
    tag: str | None = None

    async def translate(self, texts: list[str], *, best: int = 1, beam: int | None = None) -> list[Any]:
        """For each text its outputs, best first; lines are translated each by itself."""
        lines = [text.split("\n") for text in texts]
        how = {"do": "translate", "tag": self.tag, "best": best, "beam": beam}
        desk, flat = self.place.desk, [line for own in lines for line in own]
        work = max(best, beam or desk.model.get("beam", 1)) * sum(LINE + len(line.encode()) for line in flat)
        outputs = iter(await desk.ask(how, flat, work))
        return [_joined([next(outputs) for _ in own]) for own in lines]


@dataclass(eq=False)
class House:
    places: list[Place]
    limits: Limits
    keys: tuple[str, ...] = ()
    hosts: frozenset[str] = field(default_factory=own_names)
    began: int = field(default_factory=lambda: int(time.time()))
    directions: list[Direction] = field(default_factory=list)
    warming: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def state(self) -> dict[str, int]:
        desks = [place.desk for place in self.places]
        waiting, restarts = sum(len(desk.waiting) for desk in desks), sum(desk.restarts for desk in desks)
        return {"ready": all(desk.ready for desk in desks), "waiting": waiting, "restarts": restarts}

    def place(self, name: str | None, verb: str | None = None) -> Place:
        """The model of a name, or the first; it has to be one that does what the verb says."""
        place = next((each for each in self.places if name in (None, each.name)), None)
        if place is None:
            raise RefusedError(404, "there is no such model; GET /v1/models names them", param="model")
        if verb not in (None, *place.desk.model["verbs"]):
            raise RefusedError(400, f"{place.name} does not {verb}; POST /api/run takes any model", param="model")
        return place

    @property
    def languages(self) -> dict[str, str]:
        """By code, their names where they are known."""
        return {code: NAMES.get(code, code) for each in self.directions for code in (each.source, each.target)}

    async def open(self) -> None:
        for place in self.places:
            await place.desk.open()
            if "translate" in place.desk.model["verbs"]:
                found = directions(place.folder, place.desk.model["tags"], place.languages)
                self.directions += [Direction(place, *each) for each in found]

    async def close(self) -> None:
        await asyncio.gather(*(desk.close() for place in self.places for desk in (place.desk, place.looker)))


def _joined(lines: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Outputs of a text from those of its lines, the nth of each; a blank text has one, and it is blank."""
    filled, joined = sum(map(bool, lines)), []
    for rank in range(max(1, *map(len, lines))):
        ranked = [outputs[min(rank, len(outputs) - 1)] if outputs else BLANK for outputs in lines]
        output: dict[str, Any] = {"text": "\n".join(each["text"] for each in ranked)}
        output["score"] = sum(each["score"] for each in ranked) / max(1, filled)
        output["log_prob"] = sum(each["log_prob"] for each in ranked)
        output |= {name: [part for each in ranked for part in each[name]] for name in ("tokens", "parts", "ids")}
        joined.append(output)
    return joined


def directions(folder: Path, tags: Sequence[str], told: Languages | None) -> list[tuple[str, str, str | None]]:
    """Source, target and tag of each direction that a model has; what was told of it counts first."""
    corpora = _corpora(folder)
    if tags:
        known = {corpus.get("tag"): _of_corpus(corpus) for corpus in corpora}
        return [(*(known.get(tag) or ("source", tag)), tag) for tag in tags]
    if told is None:
        named = PAIR.findall(folder.resolve().name.lower())
        told = next(filter(None, [*map(_of_corpus, corpora), *named, ("source", "target")]))
    return [(*told, None)]


def _of_corpus(corpus: dict[str, Any]) -> Languages | None:
    if isinstance(name := corpus.get("corpus"), str):
        return next(iter(PAIR.findall(name)), EMBEDDED.get(name.partition("/")[0]))
    ends = [Path(str(corpus.get(side) or "")).suffix[1:].lower() for side in ("source", "target")]
    return (ends[0], ends[1]) if all(re.fullmatch("[a-z]{2,3}", end) for end in ends) and ends[0] != ends[1] else None


def _corpora(folder: Path) -> list[dict[str, Any]]:
    try:
        recipe = yaml.safe_load((folder / "recipe.yaml").read_bytes()[:MOST])
        return [corpus for corpus in recipe["data"]["train"] if isinstance(corpus, dict)]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return []
