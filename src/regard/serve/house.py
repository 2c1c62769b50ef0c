"""What the service has: its models, in what directions they translate, and who does the work."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import LINE, Desk, Heard, Task
from regard.serve.keys import own_names
from regard.serve.languages import Languages, directions


@dataclass(frozen=True)
class Direction:
    model: int
    source: str
    target: str
    tag: str | None = None


@dataclass(frozen=True, eq=False)
class Place:
    """A model: one worker says what it says, another looks at it, which needs PyTorch and starts when it is asked."""

    name: str
    folder: Path
    languages: Languages | None
    desk: Desk
    looker: Desk


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
    def ready(self) -> bool:
        return all(place.desk.ready for place in self.places)

    @property
    def full(self) -> bool:
        return all(place.desk.full for place in self.places)

    async def open(self) -> None:
        for number, place in enumerate(self.places):
            await place.desk.open()
            if place.desk.model["task"] == "translation":
                found = directions(place.folder, place.desk.model["tags"], place.languages)
                self.directions += [Direction(number, *each) for each in found]

    async def close(self) -> None:
        await asyncio.gather(*(desk.close() for place in self.places for desk in (place.desk, place.looker)))

    async def translate(
        self, direction: Direction, texts: list[str], *, best: int = 1, beam: int | None = None
    ) -> list[Any]:
        """For each text its outputs, best first; lines are translated each by itself."""
        lines = [text.split("\n") for text in texts]
        how = {"do": "translate", "tag": direction.tag, "best": best, "beam": beam}
        desk, flat = self.places[direction.model].desk, [line for own in lines for line in own]
        work = max(best, beam or desk.model.get("beam", 1)) * sum(LINE + len(line.encode()) for line in flat)
        found = iter(await desk.result(desk.hand_in(how, flat, work)))
        return [_joined([next(found) for _ in own]) for own in lines]

    async def fit(self, model: int, texts: list[str]) -> list[float]:
        found: list[float] = await self.places[model].desk.ask({"do": "detect"}, texts)
        return found

    def tell(self, model: int, prompts: list[str], how: dict[str, Any], heard: Heard | None = None) -> Task:
        """Is handed in; its result is the desk's."""
        work = how["best"] * sum(4 * how["tokens"] + len(prompt.encode()) for prompt in prompts)
        return self.places[model].desk.hand_in({"do": "tell", **how}, prompts, work, heard)

    async def align(self, direction: Direction, outputs: list[dict[str, Any]]) -> list[str]:
        """Links of words, for each output to a text of one line."""
        said = [(output["parts"], output["ids"]) for output in outputs]
        how = {"do": "align", "tag": direction.tag, "said": said, "multiplications": self.limits.multiplications}
        found: list[str] = await self._looked(direction.model, how, [output["text"] for output in outputs])
        return found

    async def likely(self, model: int, prompt: str, said: dict[str, Any], count: int) -> dict[str, Any]:
        how = {"do": "likely", "said": said["tokens"], "size": len(said["text"]), "count": count}
        found: dict[str, Any] = await self._looked(model, how, [prompt])
        return found

    async def look(self, direction: Direction, text: str, output: str | None) -> dict[str, Any]:
        how = {"do": "look", "tag": direction.tag, "target": output, "weights": self.limits.weights}
        found: dict[str, Any] = await self._looked(direction.model, how, [text])
        return found

    def warm(self) -> None:
        """Somebody will want to look soon."""
        self.warming = [asyncio.create_task(_quietly(place.looker)) for place in self.places]

    async def _looked(self, model: int, how: dict[str, Any], texts: list[str]) -> Any:
        looker = self.places[model].looker
        await looker.open()
        return await looker.ask(how, texts)


async def _quietly(desk: Desk) -> None:
    with suppress(UserError):  # it is told to whoever asks
        await desk.open()


def _joined(lines: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Outputs of a text from those of its lines, the nth of each; a blank text has one, and it is blank."""
    filled = [outputs for outputs in lines if outputs]
    made = []
    for rank in range(max(map(len, filled), default=1)):
        ranked = [outputs[min(rank, len(outputs) - 1)] if outputs else None for outputs in lines]
        said = [each for each in ranked if each is not None]
        one: dict[str, Any] = {"text": "\n".join(each["text"] if each else "" for each in ranked)}
        one |= {"score": sum(each["score"] for each in said) / max(1, len(said))}
        one |= {"log_prob": sum(each["log_prob"] for each in said)}
        made.append(one | {name: [part for each in said for part in each[name]] for name in ("tokens", "parts", "ids")})
    return made
