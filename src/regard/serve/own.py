"""Regard's own interface: all that it knows of an output."""

from __future__ import annotations

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.serve.house import Direction, House
from regard.serve.wire import RefusedError, asked, bounded, while_there


class Ask(BaseModel):
    """Which model, by its name, or by what it translates; by default the first."""

    model: str | None = None
    source: str | None = None
    target: str | None = None


class Translate(Ask):
    text: str | list[str]
    beam: int | None = Field(None, ge=1, le=16)
    best: int = Field(1, ge=1)
    alignment: bool = False


class Attention(Ask):
    text: str
    output: str | None = None
    """What is looked at instead of the model's own output."""


async def translate(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Translate, house.limits)
    texts = [given.text] if isinstance(given.text, str) else given.text
    bounded(texts, house.limits, "text")
    if given.best > house.limits.best:
        raise RefusedError(400, f"best: at most {house.limits.best} outputs are given", param="best")
    direction = chosen(house, given)
    found = await while_there(request, house.translate(direction, texts, best=given.best, beam=given.beam))
    answers = [{"text": text, "outputs": outputs} for text, outputs in zip(texts, found, strict=True)]
    if given.alignment:
        one = [
            (text, output) for text, outputs in zip(texts, found, strict=True) for output in outputs if _is_line(text)
        ]
        pairs = [(text, output["text"]) for text, output in one]
        links = await while_there(request, house.align(direction, pairs)) if pairs else []
        for (_, output), link in zip(one, links, strict=True):
            output["alignment"] = link
    told = {"model": house.names[direction.model], "source": direction.source, "target": direction.target}
    return JSONResponse({**told, "translations": answers})


async def attention(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Attention, house.limits)
    bounded([given.text, given.output or ""], house.limits, "text")
    if not _is_line(given.text):
        raise RefusedError(400, "text: has to be one line, and not blank", param="text")
    return JSONResponse(await while_there(request, house.look(chosen(house, given).model, given.text, given.output)))


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text.strip()


async def ready(house: House, request: Request) -> JSONResponse:
    """Whether it can work now: its worker lives, and gets on with what it has."""
    state = {"ready": house.desk.ready, "waiting": len(house.desk.waiting), "restarts": house.desk.restarts}
    return JSONResponse(state, 200 if house.desk.ready else 503)


async def models(house: House, request: Request) -> JSONResponse:
    told = []
    for number, name in enumerate(house.names):
        own = [{"source": each.source, "target": each.target} for each in house.directions if each.model == number]
        told.append({"name": name, **house.desk.models[number], "directions": own})
    return JSONResponse({"models": told, "limits": vars(house.limits)})


def chosen(house: House, given: Ask) -> Direction:
    for each in house.directions:
        wanted = (given.model in (None, house.names[each.model]), given.source in (None, each.source))
        if all(wanted) and given.target in (None, each.target):
            return each
    if given.model in house.names and given.source is None and given.target is None:
        return Direction(house.names.index(given.model), "", "", None)
    raise RefusedError(404, "there is no such model; GET /api/models names them", param="model")
