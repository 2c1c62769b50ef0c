"""The service as programs read it: its OpenAPI description, from the very types that requests are checked by."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from regard import __version__
from regard.serve.house import House

REF = "#/components/schemas/{model}"


class PlainError(TypedDict):
    error: str


class OpenAIErrorBody(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(TypedDict):
    error: OpenAIErrorBody


class Detected(TypedDict):
    language: str
    confidence: float


class Translated(TypedDict):
    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]


class Language(TypedDict):
    code: str
    name: str
    targets: list[str]


class Health(TypedDict):
    status: Literal["ok"]


class Output(TypedDict):
    text: str
    score: float
    log_prob: float
    tokens: list[str]
    alignment: NotRequired[str]


class Answer(TypedDict):
    text: str
    outputs: list[Output]


class Translations(TypedDict):
    model: str
    source: str
    target: str
    translations: list[Answer]


class Ready(TypedDict):
    ready: bool
    waiting: int
    restarts: int


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Choice(TypedDict):
    index: int
    text: str
    logprobs: dict[str, Any] | None
    finish_reason: str | None


class Completion(TypedDict):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: NotRequired[Usage]


def description(routes: dict[str, Any], house: House) -> dict[str, Any]:
    """OpenAPI 3.1; `routes` are those of app.py."""
    schemas: dict[str, Any] = {}
    every = [place.name for place in house.places]
    tells = [place.name for place in house.places if place.desk.model.get("task") == "lm"]
    sources, targets = (sorted({getattr(each, side) for each in house.directions}) for side in ("source", "target"))

    def schema(kind: Any) -> dict[str, Any]:
        found = TypeAdapter(kind).json_schema(ref_template=REF)
        schemas.update(found.pop("$defs", {}))
        return found

    def answer(told: str, kind: Any, streams: bool = False) -> dict[str, Any]:
        stream: dict[str, Any] = {"text/event-stream": {}} if streams else {}
        return {"description": told, "content": {"application/json": {"schema": schema(kind)}, **stream}}

    def operation(path: str, route: Any) -> dict[str, Any]:
        refusal = OpenAIError if path.startswith("/v1/") else PlainError
        answers = {str(status): answer(told, refusal) for status, told in STATUSES.items()}
        answers["200"] = answer("Done", route.answers, route.streams)
        if route.answers is Ready:
            answers["503"] = answer("Not now", Ready)
        about: dict[str, Any] = {"summary": (route.act.__doc__ or path).strip().splitlines()[0], "responses": answers}
        if "{" in path:
            named = {"type": "string", "enum": every}
            about["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": named}]
        if route.asks is not None:
            asked, auto = schema(route.asks), ["auto"] if path == "/translate" else []
            known = {"model": tells if route.streams else every, "source": [*sources, *auto], "target": targets}
            for name in known.keys() & asked["properties"]:
                for each in asked["properties"][name].get("anyOf", [asked["properties"][name]]):
                    each |= {"enum": known[name]} if known[name] and each["type"] == "string" else {}
            kinds = ["application/json", *(["application/x-www-form-urlencoded"] if route.form else [])]
            about["requestBody"] = {"required": True, "content": {kind: {"schema": asked} for kind in kinds}}
        return about

    paths = {path: {route.method.lower(): operation(path, route)} for path, route in routes.items()}
    info = {"title": "Regard", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


STATUSES = {
    400: "Not as it has to be",
    401: "A key is needed",
    403: "Asked by another name, or from a page of another site",
    404: "There is no such model",
    408: "It did not arrive in time",
    413: "Too large",
    415: "Neither JSON nor a form where there may be one",
    500: "The worker ended under it, twice",
    503: "Too much to do; Retry-After says when to come back",
}
