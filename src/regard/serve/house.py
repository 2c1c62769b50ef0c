"""What the service has: its models, in what directions they translate, and who does the work."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from regard.serve.config import Limits
from regard.serve.desk import Desk


@dataclass(frozen=True)
class Direction:
    model: int
    source: str
    target: str
    tag: str | None


@dataclass(eq=False)
class House:
    """Translations and texts come from one worker, attention from another: that one needs PyTorch."""

    names: list[str]
    directions: list[Direction]
    limits: Limits
    desk: Desk
    looker: Desk
    keys: tuple[str, ...] = ()
    began: int = field(default_factory=lambda: int(time.time()))

    async def translate(
        self, direction: Direction, texts: list[str], *, best: int = 1, beam: int | None = None
    ) -> list[Any]:
        """For each text its outputs, best first; lines are translated each by itself."""
        lines = [text.split("\n") for text in texts]
        how = {"do": "translate", "model": direction.model, "tag": direction.tag, "best": best}
        how["beam"] = beam or self.desk.models[direction.model]["beam"]
        found = iter(await self.desk.ask(how, [line for own in lines for line in own]))
        return [_joined([next(found) for _ in own], best) for own in lines]

    async def open(self) -> None:
        await self.desk.open()
        self.directions = [each for each in self.directions if self.desk.models[each.model]["task"] == "translation"]

    async def close(self) -> None:
        await asyncio.gather(self.desk.close(), self.looker.close())

    async def align(self, direction: Direction, pairs: list[tuple[str, str]]) -> list[str]:
        """Links of words, for each text of one line and its output."""
        how = {"do": "align", "model": direction.model, "said": [said for _, said in pairs]}
        await self.looker.open()
        return await self.looker.ask(how, [text for text, _ in pairs])

    async def likely(self, model: int, prompt: str, said: str, count: int, echo: bool) -> Any:
        how = {"do": "likely", "model": model, "said": said, "count": count, "echo": echo}
        await self.looker.open()
        return await self.looker.ask(how, [prompt])

    async def look(self, model: int, text: str, output: str | None) -> Any:
        how = {"do": "look", "model": model, "target": output, "weights": self.limits.weights}
        await self.looker.open()
        return await self.looker.ask(how, [text])

    async def fit(self, model: int, texts: list[str]) -> list[float]:
        return await self.desk.ask({"do": "detect", "model": model}, texts)


def _joined(lines: list[list[dict[str, Any]]], best: int) -> list[dict[str, Any]]:
    """Outputs of a text from those of its lines: the nth of each."""
    most = min(best, max((len(outputs) for outputs in lines), default=0)) or 1
    made = []
    for rank in range(most):
        ranked = [
            outputs[min(rank, len(outputs) - 1)] if outputs else {"text": "", "score": 0.0, "log_prob": 0.0}
            for outputs in lines
        ]
        filled = [each for each, outputs in zip(ranked, lines, strict=True) if outputs]
        made.append(
            {
                "text": "\n".join(each["text"] for each in ranked),
                "score": sum(each["score"] for each in filled) / max(1, len(filled)),
                "log_prob": sum(each["log_prob"] for each in filled),
                "tokens": [piece for each in filled for piece in each["tokens"]],
            }
        )
    return made
