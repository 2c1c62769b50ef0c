"""Regard's own interface: all that it knows of an output."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.serve.house import Direction, House
from regard.serve.languages import name_of
from regard.serve.wire import MOST, Name, RefusedError, Text, Texts, asked, while_there


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text.strip()


def _one_line(text: str) -> str:
    if not _is_line(text):
        raise ValueError("has to be one line, and not blank")
    return text


class Ask(BaseModel):
    """Which model, by its name, or by what it translates; by default the first."""

    model: Name | None = None
    source: Name | None = None
    target: Name | None = None


class Translate(Ask):
    text: Texts
    beam: int | None = Field(None, ge=1, le=16)
    best: int = Field(1, ge=1, le=MOST.best)
    alignment: bool = False


class Attention(Ask):
    text: Annotated[Text, AfterValidator(_one_line), Field(json_schema_extra={"pattern": r"^[^\n]*[^\s][^\n]*$"})]
    output: Text | None = None
    """What is looked at instead of the model's own output."""


async def translate(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Translate)
    texts = [given.text] if isinstance(given.text, str) else given.text
    direction = chosen(house, given)
    found = await while_there(request, house.translate(direction, texts, best=given.best, beam=given.beam))
    answers = [{"text": text, "outputs": outputs} for text, outputs in zip(texts, found, strict=True)]
    if given.alignment:
        one = [output for text, outputs in zip(texts, found, strict=True) for output in outputs if _is_line(text)]
        links = await while_there(request, house.align(direction, one)) if one else []
        for output, link in zip(one, links, strict=True):
            output["alignment"] = link
    for output in (each for outputs in found for each in outputs):
        del output["parts"], output["ids"]
    told = {"model": house.places[direction.model].name, "source": direction.source, "target": direction.target}
    return JSONResponse({**told, "translations": answers})


async def attention(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Attention)
    return JSONResponse(await while_there(request, house.look(_any_model(house, given), given.text, given.output)))


async def ready(house: House, request: Request) -> JSONResponse:
    """Whether it can work now: every model's worker is there, and gave a sign of life lately."""
    desks = [place.desk for place in house.places]
    waiting, restarts = sum(len(desk.waiting) for desk in desks), sum(desk.restarts for desk in desks)
    state = {"ready": house.ready, "waiting": waiting, "restarts": restarts}
    return JSONResponse(state, 200 if house.ready else 503)


async def models(house: House, request: Request) -> JSONResponse:
    """What there is, and how much is taken. The page asks this first, and will want to look next."""
    house.warm()
    told = []
    for number, place in enumerate(house.places):
        own = [{"source": each.source, "target": each.target} for each in house.directions if each.model == number]
        told.append({"name": place.name, **place.desk.model, "directions": own})
    names = {code: name_of(code) for each in house.directions for code in (each.source, each.target)}
    return JSONResponse({"models": told, "languages": names, "limits": vars(house.limits)})


def chosen(house: House, given: Ask) -> Direction:
    for each in house.directions:
        wanted = (given.model in (None, house.places[each.model].name), given.source in (None, each.source))
        if all(wanted) and given.target in (None, each.target):
            return each
    raise RefusedError(404, "there is no such translator; GET /api/models names them", param="model")


def _any_model(house: House, given: Ask) -> Direction:
    """One that goes on with texts can be looked at too."""
    names = [place.name for place in house.places]
    if given.source is None and given.target is None and (given.model in names or not house.directions):
        number = names.index(given.model) if given.model in names else 0
        if house.places[number].desk.model["task"] != "translation":
            return Direction(number, "", "")
    return chosen(house, given)
