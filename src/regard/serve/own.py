"""Regard's own interface: all that it knows of an output."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.serve.desk import RefusedError
from regard.serve.house import Direction, House
from regard.serve.wire import MOST, Name, Text, Texts, asked, listed, while_there


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
    direction = _chosen(house, given)
    texts, place = listed(given.text), direction.place
    translations = await while_there(request, direction.translate(texts, best=given.best, beam=given.beam))
    answers = [{"text": text, "outputs": outputs} for text, outputs in zip(texts, translations, strict=True)]
    lines = [output for answer in answers if _is_line(answer["text"]) for output in answer["outputs"]]
    if given.alignment and lines:
        tokens = [(output["parts"], output["ids"]) for output in lines]
        how = {"do": "align", "tag": direction.tag, "said": tokens, "multiplications": house.limits.multiplications}
        links = await while_there(request, place.look(how, [output["text"] for output in lines]))
        for output, link in zip(lines, links, strict=True):
            output["alignment"] = link
    for output in chain.from_iterable(translations):
        del output["parts"], output["ids"]
    about = {"model": place.name, "source": direction.source, "target": direction.target}
    return JSONResponse({**about, "translations": answers})


async def attention(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Attention)
    direction = _any_chosen(house, given)
    how = {"do": "look", "tag": direction.tag, "target": given.output, "weights": house.limits.weights}
    return JSONResponse(await while_there(request, direction.place.look(how, [given.text])))


async def ready(house: House, request: Request) -> JSONResponse:
    """Whether it can work now: every model's worker is there, and gave a sign of life lately."""
    state = house.state
    return JSONResponse(state, 200 if state["ready"] else 503)


async def models(house: House, request: Request) -> JSONResponse:
    """What there is, and how much is taken. The page asks this first, and will want to look next."""
    house.warming = [asyncio.create_task(place.warm()) for place in house.places]
    models = []
    for place in house.places:
        own = [{"source": each.source, "target": each.target} for each in house.directions if each.place is place]
        models.append({"name": place.name, **place.desk.model, "directions": own})
    return JSONResponse({"models": models, "languages": house.languages, "limits": vars(house.limits)})


def _chosen(house: House, given: Ask) -> Direction:
    for each in house.directions:
        own = {"model": each.place.name, "source": each.source, "target": each.target}
        if all(getattr(given, name) in (None, value) for name, value in own.items()):
            return each
    raise RefusedError(404, "there is no such translator; GET /api/models names them", param="model")


def _any_chosen(house: House, given: Ask) -> Direction:
    """One that goes on with texts can be looked at too; it has no languages."""
    others = [place for place in house.places if place.desk.model["task"] != "translation"]
    named = [place for place in others if place.name == given.model]
    if given.source is None and given.target is None and (named or not house.directions):
        return Direction((named or others)[0], "", "")
    return _chosen(house, given)
