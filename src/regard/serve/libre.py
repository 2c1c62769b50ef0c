"""LibreTranslate's interface."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.serve.house import Direction, House
from regard.serve.keys import known
from regard.serve.languages import name_of
from regard.serve.wire import MOST, Name, RefusedError, Texts, asked, while_there

SHARP = 12.0  # how much a better fit counts


class Translate(BaseModel):
    q: Texts
    source: Name
    target: Name
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, lt=MOST.best)
    api_key: str | None = None


class Detect(BaseModel):
    q: Texts
    api_key: str | None = None


async def translate(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Translate, form=True)
    _check_key(house, request, given.api_key)
    texts = [given.q] if isinstance(given.q, str) else given.q
    told = None
    if given.source == "auto":
        into = {each.source for each in house.directions if each.target == given.target}
        ranked = await _detected(house, request, texts)
        told = [next((each for each in own if each["language"] in into), own[0]) for own in ranked]
    sources = [each["language"] for each in told] if told else [given.source] * len(texts)
    directions = {source: _direction(house, source, given.target) for source in sources}
    found: list[Any] = [None] * len(texts)
    for source, direction in directions.items():
        own = [i for i, each in enumerate(sources) if each == source]
        some = house.translate(direction, [texts[i] for i in own], best=1 + given.alternatives)
        for i, outputs in zip(own, await while_there(request, some), strict=True):
            found[i] = outputs
    said = [outputs[0]["text"] for outputs in found]
    others = [[output["text"] for output in outputs[1:]] for outputs in found]
    answer: dict[str, Any] = {"translatedText": said[0] if isinstance(given.q, str) else said}
    if told:
        answer["detectedLanguage"] = told[0] if isinstance(given.q, str) else told
    if given.alternatives:
        answer["alternatives"] = others[0] if isinstance(given.q, str) else others
    return JSONResponse(answer)


async def detect(house: House, request: Request) -> JSONResponse:
    """Among the source languages of the models that are here, by how well their tokenizers fit."""
    given = await asked(request, Detect, form=True)
    _check_key(house, request, given.api_key)
    texts = [given.q] if isinstance(given.q, str) else given.q
    return JSONResponse((await _detected(house, request, ["\n".join(texts)]))[0])


async def languages(house: House, request: Request) -> JSONResponse:
    codes = {code: name_of(code) for each in house.directions for code in (each.source, each.target)}
    targets = {code: [each.target for each in house.directions if each.source == code] for code in codes}
    return JSONResponse([{"code": code, "name": name, "targets": targets[code]} for code, name in codes.items()])


async def settings(house: House, request: Request) -> JSONResponse:
    first = house.directions[0] if house.directions else Direction(0, "source", "target")
    both = {"source": first.source, "target": first.target}
    languages = {side: {"code": code, "name": name_of(code)} for side, code in both.items()}
    bounds = {"charLimit": house.limits.characters, "frontendTimeout": 200}
    keys = {"apiKeys": bool(house.keys), "keyRequired": bool(house.keys)}
    lacks = {"suggestions": False, "filesTranslation": False, "supportedFilesFormat": list[str]()}
    return JSONResponse({**bounds, **keys, **lacks, "language": languages})


async def health(house: House, request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


def _check_key(house: House, request: Request, given: str | None) -> None:
    if house.keys and not known(house.keys, request, given or ""):
        raise RefusedError(401, "a key is needed, as api_key")


def _direction(house: House, source: str, target: str) -> Direction:
    for each in house.directions:
        if (each.source, each.target) == (source, target):
            return each
    known = ", ".join(f"{each.source} to {each.target}" for each in house.directions)
    raise RefusedError(400, f"{source} to {target} is not offered; there is {known or 'no translator'}")


async def _detected(house: House, request: Request, texts: list[str]) -> list[list[dict[str, Any]]]:
    """For each text the languages, best first, with confidences that sum to 100."""
    models = {each.source: each.model for each in reversed(house.directions)}
    if not models:
        raise RefusedError(400, "there is no translator here")
    fits = {code: await while_there(request, house.fit(model, texts)) for code, model in models.items()}
    told = []
    for i in range(len(texts)):
        best = min(fit[i] for fit in fits.values())
        odds = {code: math.exp(-SHARP * (fit[i] - best)) for code, fit in fits.items()}
        ranked = sorted(odds, key=lambda code: -odds[code])
        shares = {code: 100 * odds[code] / sum(odds.values()) for code in ranked}
        told.append([{"language": code, "confidence": round(shares[code], 1)} for code in ranked])
    return told
