"""Regard's own interface: all that it knows of an output."""

import asyncio
import json
import time
from itertools import chain
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse

from regard.errors import UserError
from regard.serve.desk import LINE, RefusedError
from regard.serve.house import Direction, House
from regard.serve.wire import MOST, Name, Text, Texts, asked, while_there
from regard.tasks.options import SearchOptions, accepted, listed
from regard.tasks.registry import TASKS

BEAM = 16  # hypotheses kept per step
Value = Name | bool | int | FiniteFloat | Annotated[list[Name], Field(max_length=MOST.stops)] | None  # of an option
Steps = Annotated[list[list[FiniteFloat]], Field(min_length=1, max_length=MOST.characters)]
LARGEST = {"beam": BEAM, "max_tokens": MOST.tokens, "top_k": 1 << 20}  # of whole numbers; of others MOST.best


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
    beam: int | None = Field(None, ge=1, le=BEAM)
    best: int = Field(1, ge=1, le=MOST.best)
    alignment: bool = False


class Run(BaseModel):
    """Texts as lines of `regard run`, or sequences of vectors for models that read these, with options of that model's
    task; by default of the first model."""

    model: Name | None = None
    text: Texts = Field(default_factory=list)
    values: Annotated[list[Steps], Field(max_length=MOST.texts)] = []
    options: dict[Name, Value] = {}

    @property
    def items(self) -> list[str]:
        return [*listed(self.text), *map(json.dumps, self.values)]

    @model_validator(mode="after")
    def _has_items(self) -> "Run":
        if bool(self.text) == bool(self.values):
            raise ValueError("give either text or values")
        return self


class Attention(Ask):
    text: Annotated[Text, AfterValidator(_one_line), Field(json_schema_extra={"pattern": r"^[^\n]*[^\s][^\n]*$"})]
    output: Text | None = None
    """What is looked at instead of the model's own output."""


async def translate(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Translate)
    direction = _chosen(house.directions, given)
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


async def run(house: House, request: Request) -> JSONResponse:
    """What the model says to each text, whatever its task: a label, a number, tags, filled blanks, a vector."""
    given = await asked(request, Run)
    place, texts = house.place(given.model), given.items
    task, schema = place.desk.model["task"], TASKS[place.desk.model["task"]].run
    options = accepted(schema, {name: value for name, value in given.options.items() if value is not None})
    apart = issubclass(schema, SearchOptions) and time.monotonic_ns()  # samples depend on the number of the line
    how = {"do": "run", "options": options, "apart": apart}
    sizes = ["." * len(each) for each in given.values] or texts  # a step takes no longer than a character
    work = place.desk.ask(how, texts, _size(place.desk.model, sizes, options))
    results = [{"input": text, **each} for text, each in zip(texts, await while_there(request, work), strict=True)]
    return JSONResponse({"model": place.name, "task": task, "results": results})


async def attention(house: House, request: Request) -> JSONResponse:
    given = await asked(request, Attention)
    others = [Direction(each, "", "") for each in house.places if "translate" not in each.desk.model["verbs"]]
    direction = _chosen([*house.directions, *others], given)
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


def _size(model: dict[str, Any], texts: list[str], options: dict[str, Any]) -> int:
    """About how much work these texts are; raises UserError if they are too many with these options."""
    best, tokens = options.get("num_best", 1), options.get("max_tokens", 0)
    times = [max(1, text.count("\t")) if model["parts"] > 1 else 1 for text in texts]  # a context with each choice
    read = sum(count * len(text) for count, text in zip(times, texts, strict=True))
    bounds = {name: (value, LARGEST.get(name, MOST.best)) for name, value in options.items() if type(value) is int}
    bounds |= {"tokens of all outputs": (len(texts) * best * tokens or 1, MOST.all_tokens)}
    bounds |= {"characters, a context with each choice,": (read or 1, MOST.all_characters)}
    for name, (value, most) in bounds.items():
        if not 1 <= value <= most and name != "seed":
            raise UserError(f"{name} {f'{value:,}'[:20]} is outside 1 to {most:,}; ask for less at once")
    labels = 1 + sum(value.count(",") for value in options.values() if isinstance(value, str))
    each = [LINE + 4 * (tokens or model["tokens"]) + n * len(t.encode()) for n, t in zip(times, texts, strict=True)]
    return int(max(best, options.get("beam") or model["beam"]) * labels * sum(each))


def _chosen(directions: list[Direction], given: Ask) -> Direction:
    for each in directions:
        own = {"model": each.place.name, "source": each.source, "target": each.target}
        if all(getattr(given, name) in (None, value) for name, value in own.items()):
            return each
    raise RefusedError(404, "there is no such model; GET /api/models names them", param="model")
