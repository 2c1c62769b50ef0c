"""LibreTranslate's interface."""

import math
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.serve.desk import RefusedError
from regard.serve.house import Direction, House
from regard.serve.wire import MOST, Name, Texts, asked, known, while_there
from regard.tasks.options import listed

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
    texts, detected = listed(given.q), list[dict[str, Any]]()
    if given.source == "auto":
        into = {each.source for each in house.directions if each.target == given.target}
        ranked = await _detected(house, request, texts)
        detected = [next((each for each in own if each["language"] in into), own[0]) for own in ranked]
    sources = [each["language"] for each in detected] or [given.source] * len(texts)
    outputs: list[list[str]] = [[]] * len(texts)
    for direction in [_direction(house, source, given.target) for source in dict.fromkeys(sources)]:
        own = [i for i, source in enumerate(sources) if source == direction.source]
        work = direction.translate([texts[i] for i in own], best=1 + given.alternatives)
        for i, best in zip(own, await while_there(request, work), strict=True):
            outputs[i] = [output["text"] for output in best]
    answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in outputs]}
    if detected:
        answer["detectedLanguage"] = detected
    if given.alternatives:
        answer["alternatives"] = [others for _, *others in outputs]
    return JSONResponse(answer if isinstance(given.q, list) else {name: values[0] for name, values in answer.items()})


async def detect(house: House, request: Request) -> JSONResponse:
    """Among the source languages of the models that are here, by how well their tokenizers fit."""
    given = await asked(request, Detect, form=True)
    _check_key(house, request, given.api_key)
    (languages,) = await _detected(house, request, ["\n".join(listed(given.q))])
    return JSONResponse(languages)


async def languages(house: House, request: Request) -> JSONResponse:
    names = house.languages
    targets = {code: [each.target for each in house.directions if each.source == code] for code in names}
    return JSONResponse([{"code": code, "name": name, "targets": targets[code]} for code, name in names.items()])


async def settings(house: House, request: Request) -> JSONResponse:
    languages = {}
    for side in ("source", "target"):
        code = getattr(house.directions[0], side) if house.directions else side
        languages[side] = {"code": code, "name": house.languages.get(code, code)}
    bounds = {"charLimit": house.limits.characters, "frontendTimeout": 200}
    keys = {"apiKeys": bool(house.keys), "keyRequired": bool(house.keys)}
    lacks = {"suggestions": False, "filesTranslation": False, "supportedFilesFormat": list[str]()}
    return JSONResponse({**bounds, **keys, **lacks, "language": languages})


async def health(house: House, request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


def _check_key(house: House, request: Request, key: str | None) -> None:
    if house.keys and not known(house.keys, request, key or ""):
        raise RefusedError(401, "a key is needed, as api_key")


def _direction(house: House, source: str, target: str) -> Direction:
    for each in house.directions:
        if (each.source, each.target) == (source, target):
            return each
    known = ", ".join(f"{each.source} to {each.target}" for each in house.directions)
    raise RefusedError(400, f"{source} to {target} is not offered; there is {known or 'no translator'}")


async def _detected(house: House, request: Request, texts: list[str]) -> list[list[dict[str, Any]]]:
    """For each text the languages, best first, with confidences that sum to 100."""
    desks = {each.source: each.place.desk for each in reversed(house.directions)}
    if not desks:
        raise RefusedError(400, "there is no translator here")
    fits = {code: await while_there(request, desk.ask({"do": "detect"}, texts)) for code, desk in desks.items()}
    detected = []
    for i in range(len(texts)):
        best = min(fit[i] for fit in fits.values())
        odds = {code: math.exp(-SHARP * (fit[i] - best)) for code, fit in fits.items()}
        ranked = sorted(odds, key=lambda code: -odds[code])
        shares = {code: round(100 * odds[code] / sum(odds.values()), 1) for code in ranked}
        detected.append([{"language": code, "confidence": share} for code, share in shares.items()])
    return detected
