"""The service as programs read it: its OpenAPI description, of requests from the very types that check them."""

from collections.abc import Sequence
from typing import Any

from regard import __version__
from regard.serve.house import House

Schema = dict[str, Any]
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


def shape(title: str, optional: Sequence[str] = (), **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"title": title, "type": "object", "properties": properties, "required": required}


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


TYPES = ("string", "number", "integer", "boolean", "null", "object")
TEXT, NUMBER, WHOLE, FLAG, NULL, OBJECT = ({"type": name} for name in TYPES)
TEXTS, TEXT_OR_NULL = many(TEXT), either(TEXT, NULL)
PLAIN_ERROR = shape("PlainError", error=TEXT)
OPENAI_BODY = shape("OpenAIErrorBody", message=TEXT, type=TEXT, param=TEXT_OR_NULL, code=TEXT_OR_NULL)
OPENAI_ERROR = shape("OpenAIError", error=OPENAI_BODY)
DETECTED = shape("Detected", language=TEXT, confidence=NUMBER)
EXTRAS = {"detectedLanguage": either(DETECTED, many(DETECTED)), "alternatives": either(TEXTS, many(TEXTS))}
TRANSLATED = shape("Translated", [*EXTRAS], translatedText=either(TEXT, TEXTS), **EXTRAS)
LANGUAGE = shape("Language", code=TEXT, name=TEXT, targets=TEXTS)
HEALTH = shape("Health", status=TEXT | {"const": "ok"})
READY = shape("Ready", ready=FLAG, waiting=WHOLE, restarts=WHOLE)
OUTPUT = shape("Output", ["alignment"], text=TEXT, score=NUMBER, log_prob=NUMBER, tokens=TEXTS, alignment=TEXT)
ANSWER = shape("Answer", text=TEXT, outputs=many(OUTPUT))
TRANSLATIONS = shape("Translations", model=TEXT, source=TEXT, target=TEXT, translations=many(ANSWER))
CHOICE = shape("Choice", index=WHOLE, text=TEXT, logprobs=either(OBJECT, NULL), finish_reason=TEXT_OR_NULL)
USAGE = shape("Usage", ["completion_tokens"], prompt_tokens=WHOLE, completion_tokens=WHOLE, total_tokens=WHOLE)
HEAD = {"id": TEXT, "object": TEXT | {"const": "text_completion"}, "created": WHOLE, "model": TEXT}
COMPLETION = shape("Completion", ["usage"], **HEAD, choices=many(CHOICE), usage=USAGE)
RESULTS = shape("Results", model=TEXT, task=TEXT, results=many(shape("Result", input=TEXT, line=TEXT)))
EMBEDDING = shape("Embedding", object=TEXT, index=WHOLE, embedding=either(many(NUMBER), TEXT))
EMBEDDINGS = shape("Embeddings", object=TEXT, data=many(EMBEDDING), model=TEXT, usage=USAGE)


def description(routes: dict[str, Any], house: House) -> dict[str, Any]:
    """OpenAPI 3.1; `routes` are those of app.py."""
    schemas: dict[str, Schema] = {}
    every = [place.name for place in house.places]
    sources, targets = (sorted({getattr(each, side) for each in house.directions}) for side in ("source", "target"))

    def answer(about: str, schema: Schema, streams: bool = False) -> dict[str, Any]:
        stream: dict[str, Any] = {"text/event-stream": {}} if streams else {}
        return {"description": about, "content": {"application/json": {"schema": schema}, **stream}}

    def operation(path: str, route: Any) -> dict[str, Any]:
        refusal = OPENAI_ERROR if path.startswith("/v1/") else PLAIN_ERROR
        answers = {str(status): answer(about, refusal) for status, about in STATUSES.items()}
        answers["200"] = answer("Done", route.answers, route.streams)
        if route.answers is READY:
            answers["503"] = answer("Not now", READY)
        about: dict[str, Any] = {"summary": (route.act.__doc__ or path).strip().splitlines()[0], "responses": answers}
        if "{" in path:
            model = TEXT | {"enum": every}
            about["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": model}]
        if route.asks is not None:
            asked = route.asks.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(asked.pop("$defs", {}))
            auto = ["auto"] if path == "/translate" else []
            able = [place.name for place in house.places if route.verb in (None, *place.desk.model.get("verbs", ()))]
            known = {"model": able, "source": [*sources, *auto], "target": targets}
            for name in known.keys() & asked["properties"]:
                for each in asked["properties"][name].get("anyOf", [asked["properties"][name]]):
                    each |= {"enum": known[name]} if known[name] and each["type"] == "string" else {}
            kinds = ["application/json", *(["application/x-www-form-urlencoded"] if route.form else [])]
            about["requestBody"] = {"required": True, "content": {kind: {"schema": asked} for kind in kinds}}
        return about

    paths = {path: {route.method.lower(): operation(path, route)} for path, route in routes.items()}
    info = {"title": "Regard", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
