"""The routes, their OpenAPI description, and what holds for all: keys, bounds, headers, and how refusals look."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard import __version__
from regard.errors import UserError
from regard.serve import libre, openai, own
from regard.serve.desk import BusyError, RefusedError
from regard.serve.house import House
from regard.serve.wire import GONE, is_own_host, is_own_page, known

Handler = Callable[[House, Request], Awaitable[Response]]
HEADERS = [
    (b"content-security-policy", b"default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


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


@dataclass(frozen=True)
class Entry:
    """What a route takes and gives."""

    method: str
    act: Handler
    answers: dict[str, Any]
    asks: type[BaseModel] | None = None
    verb: str | None = None  # of the models that can be asked
    form: bool = False
    streams: bool = False


ROUTES = {
    "/translate": Entry("POST", libre.translate, TRANSLATED, libre.Translate, form=True),
    "/detect": Entry("POST", libre.detect, many(DETECTED), libre.Detect, form=True),
    "/languages": Entry("GET", libre.languages, many(LANGUAGE)),
    "/frontend/settings": Entry("GET", libre.settings, OBJECT),
    "/health": Entry("GET", libre.health, HEALTH),
    "/v1/models": Entry("GET", openai.models, OBJECT),
    "/v1/models/{model}": Entry("GET", openai.model, OBJECT),
    "/v1/completions": Entry("POST", openai.complete, COMPLETION, openai.Complete, "generate", streams=True),
    "/v1/embeddings": Entry("POST", openai.embed, EMBEDDINGS, openai.Embed, "embed"),
    "/api/run": Entry("POST", own.run, RESULTS, own.Run),
    "/api/translate": Entry("POST", own.translate, TRANSLATIONS, own.Translate, "translate"),
    "/api/attention": Entry("POST", own.attention, OBJECT, own.Attention),
    "/api/models": Entry("GET", own.models, OBJECT),
    "/ready": Entry("GET", own.ready, READY),
}
PAGE = {"/": "serve/page/index.html"}
PAGE |= {f"/{name}": f"serve/page/{name}" for name in ("page.js", "page.css", "icon.svg")}
PAGE |= {f"/{name}": f"look/web/{name}" for name in ("view.js", "view.css")}
STATE = {"waiting": "Requests in the queue", "ready": "Whether the workers answer", "restarts": "Workers replaced"}
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def app(house: House) -> Starlette:
    figures = Figures(house)
    answer = partial(_answer, house, figures)
    routes = [Route(path, partial(answer, path), methods=[entry.method]) for path, entry in ROUTES.items()]
    described = JSONResponse(description(house))
    routes += [Route("/openapi.json", lambda request: described, methods=["GET"])]
    routes += [Route("/metrics", lambda request: figures.response(), methods=["GET"])]
    routes += [Route(path, _still(name), methods=["GET"]) for path, name in PAGE.items()]
    guard = Middleware(Guard, house=house, figures=figures)
    service = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _odd})
    service.router.redirect_slashes = False
    return service


def description(house: House) -> dict[str, Any]:
    """OpenAPI 3.1, of requests from the very types that check them."""
    schemas: dict[str, Schema] = {}
    every = [place.name for place in house.places]
    sources, targets = (sorted({getattr(each, side) for each in house.directions}) for side in ("source", "target"))

    def answer(about: str, schema: Schema, streams: bool = False) -> dict[str, Any]:
        stream: dict[str, Any] = {"text/event-stream": {}} if streams else {}
        return {"description": about, "content": {"application/json": {"schema": schema}, **stream}}

    def operation(path: str, route: Entry) -> dict[str, Any]:
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

    paths = {path: {route.method.lower(): operation(path, route)} for path, route in ROUTES.items()}
    info = {"title": "Regard", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _still(name: str) -> Callable[[Request], Response]:
    """A file of the page, read once: nothing that is asked for ever names a file."""
    data = files("regard").joinpath(name).read_bytes()
    return lambda request: Response(data, media_type=KINDS[name.rpartition(".")[2]])


def _odd(request: Request, error: Any) -> JSONResponse:
    """Of an HTTPException: a path or method that is not offered."""
    why = {404: "there is nothing here; GET /openapi.json tells what is offered", 405: "this is asked in another way"}
    response = refused(request.url.path, RefusedError(error.status_code, why.get(error.status_code, error.detail)))
    response.headers.update(error.headers or {})
    return response


async def _answer(house: House, figures: "Figures", path: str, request: Request) -> Response:
    began = time.perf_counter()
    try:
        response = await ROUTES[path].act(house, request)
    except UserError as error:
        response = refused(path, RefusedError(400, str(error)))
    except RefusedError as error:
        response = refused(path, error)
    figures.count(path, response.status_code, time.perf_counter() - began)
    return response


def refused(path: str, error: RefusedError) -> JSONResponse:
    """In the shape of the interface that was asked."""
    headers = {"Retry-After": "1"} if error.status == 503 else {}
    body: Any = error.message
    if path.startswith("/v1/"):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        code = {401: "invalid_api_key", 404: "model_not_found", 503: "server_is_overloaded"}.get(error.status)
        body = {"message": error.message, "type": kind, "param": error.param, "code": code}
    return JSONResponse({"error": body}, error.status, headers)


class Figures:
    """Counters for Prometheus; labels are routes and statuses, never anything that a client sent."""

    def __init__(self, house: House) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests", ["route", "status"], registry=self.registry)
        self.seconds = Histogram("regard_seconds", "Seconds of a request", ["route"], registry=self.registry)
        for name, about in STATE.items():
            gauge = Gauge(f"regard_{name}", about, registry=self.registry)
            gauge.set_function(partial(lambda name: house.state[name], name))

    def count(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class Guard:
    """Before anything is done: who asks, has all of it arrived, is there room? And headers for every answer."""

    def __init__(self, app: ASGIApp, house: House, figures: Figures) -> None:
        self.app, self.house, self.figures, self.inside = app, house, figures, 0
        self.sending: dict[asyncio.Timeout, tuple[bool, str]] = {}  # the oldest first; with a key or not, and of whom

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        path, body = scope["path"], list[Message]()
        try:
            keyed = self._checked(request := Request(scope, receive))
            if scope["method"] == "POST" and path in ROUTES and ROUTES[path].asks is not None:
                body = [{"type": "http.request", "body": await self._body(request, keyed), "more_body": False}]
                full = all(place.desk.full for place in self.house.places)
                if full or self.inside >= self.house.limits.requests:
                    raise BusyError
        except RefusedError as error:
            response = refused(path, error)
            if error.status == 401:
                response.headers["WWW-Authenticate"] = 'Basic realm="Regard"'
            elif error.status in (400, 408):
                response.headers["Connection"] = "close"  # where this request ends is not known
            if path in ROUTES:
                self.figures.count(path, error.status, 0.0)
            await response(scope, receive, with_headers)
            return

        async def replayed() -> Message:
            return body.pop() if body else await receive()

        self.inside += 1
        try:
            await self.app(scope, replayed, with_headers)
        finally:
            self.inside -= 1

    def _checked(self, request: Request) -> bool:
        """Raise if its head is enough to refuse it; else whether no key is needed (LibreTranslate's is in the body)."""
        keys, kind = self.house.keys, request.headers.get("authorization", "").partition(" ")[0].lower()
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            raise RefusedError(400, "the body has two lengths; send Content-Length or Transfer-Encoding, not both")
        if not keys and not is_own_host(request, self.house.hosts):
            raise RefusedError(403, "this is not a name of the service; use its address, REGARD_HOSTS=NAME, or keys")
        if (not keys or kind == "basic") and request.method == "POST" and not is_own_page(request):
            raise RefusedError(403, "pages of other sites may not ask here")
        shown = not keys or known(keys, request)
        late = request.scope["path"] in ("/translate", "/detect") and kind != "bearer"
        if not shown and (not late or "api_key" in request.query_params):
            raise RefusedError(401, "a key is needed, as Authorization: Bearer KEY")
        return shown

    async def _body(self, request: Request, keyed: bool) -> bytes:
        """When all of it has arrived. Whoever is slow gives way to those who come after: first to the same client's,
        and where there are too many in all, those without a key first."""
        limits, size = self.house.limits, request.headers.get("content-length", "0")
        who, sending, data = (keyed, request.client.host if request.client else ""), self.sending, bytearray()
        try:
            async with asyncio.timeout(limits.header) as patience:
                own = [each for each, other in sending.items() if other == who]
                if len(own) >= limits.sending or len(sending) >= limits.requests:
                    oldest = own[0] if len(own) >= limits.sending else min(sending, key=lambda each: sending[each][0])
                    del sending[oldest]
                    if not oldest.expired():
                        oldest.reschedule(0)
                sending[patience] = who
                if size.isdigit() and int(size[:12]) <= limits.body:
                    async for chunk in request.stream():
                        data += chunk
                        if len(data) > limits.body:
                            break
                    else:
                        return bytes(data)
                raise RefusedError(413, f"a request has at most {limits.body:,} bytes")
        except TimeoutError as error:
            raise RefusedError(408, "the request did not arrive in time") from error
        except ClientDisconnect as error:
            raise RefusedError(499, GONE) from error
        finally:
            sending.pop(patience, None)
