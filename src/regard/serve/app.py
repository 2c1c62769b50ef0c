"""The routes, and what holds for all of them: keys, bounds, headers, and how refusals look."""

import asyncio
import time
from collections.abc import Awaitable, Callable
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

from regard.errors import UserError
from regard.serve import describe, libre, openai, own
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
    "/translate": Entry("POST", libre.translate, describe.TRANSLATED, libre.Translate, form=True),
    "/detect": Entry("POST", libre.detect, describe.many(describe.DETECTED), libre.Detect, form=True),
    "/languages": Entry("GET", libre.languages, describe.many(describe.LANGUAGE)),
    "/frontend/settings": Entry("GET", libre.settings, describe.OBJECT),
    "/health": Entry("GET", libre.health, describe.HEALTH),
    "/v1/models": Entry("GET", openai.models, describe.OBJECT),
    "/v1/models/{model}": Entry("GET", openai.model, describe.OBJECT),
    "/v1/completions": Entry("POST", openai.complete, describe.COMPLETION, openai.Complete, "generate", streams=True),
    "/v1/embeddings": Entry("POST", openai.embed, describe.EMBEDDINGS, openai.Embed, "embed"),
    "/api/run": Entry("POST", own.run, describe.RESULTS, own.Run),
    "/api/translate": Entry("POST", own.translate, describe.TRANSLATIONS, own.Translate, "translate"),
    "/api/attention": Entry("POST", own.attention, describe.OBJECT, own.Attention),
    "/api/models": Entry("GET", own.models, describe.OBJECT),
    "/ready": Entry("GET", own.ready, describe.READY),
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
    description = JSONResponse(describe.description(ROUTES, house))
    routes += [Route("/openapi.json", lambda request: description, methods=["GET"])]
    routes += [Route("/metrics", lambda request: figures.response(), methods=["GET"])]
    routes += [Route(path, _still(name), methods=["GET"]) for path, name in PAGE.items()]
    guard = Middleware(Guard, house=house, figures=figures)
    service = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _odd})
    service.router.redirect_slashes = False
    return service


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
