"""The routes, and what holds for all of them: keys, bounds, headers, and how refusals look."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve import describe, libre, openai, own
from regard.serve.figures import Figures
from regard.serve.house import House
from regard.serve.keys import known
from regard.serve.wire import BUSY, RefusedError

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
    answers: Any
    asks: type[BaseModel] | None = None
    form: bool = False
    streams: bool = False


ROUTES = {
    "/translate": Entry("POST", libre.translate, describe.Translated, libre.Translate, form=True),
    "/detect": Entry("POST", libre.detect, list[describe.Detected], libre.Detect, form=True),
    "/languages": Entry("GET", libre.languages, list[describe.Language]),
    "/frontend/settings": Entry("GET", libre.settings, dict[str, Any]),
    "/health": Entry("GET", libre.health, describe.Health),
    "/v1/models": Entry("GET", openai.models, dict[str, Any]),
    "/v1/models/{model}": Entry("GET", openai.model, dict[str, Any]),
    "/v1/completions": Entry("POST", openai.complete, describe.Completion, openai.Complete, streams=True),
    "/api/translate": Entry("POST", own.translate, describe.Translations, own.Translate),
    "/api/attention": Entry("POST", own.attention, dict[str, Any], own.Attention),
    "/api/models": Entry("GET", own.models, dict[str, Any]),
    "/ready": Entry("GET", own.ready, describe.Ready),
}
PAGE = {"/": "serve/page/index.html"}
PAGE |= {f"/{name}": f"serve/page/{name}" for name in ("page.js", "page.css", "icon.svg")}
PAGE |= {f"/{name}": f"look/web/{name}" for name in ("view.js", "view.css")}
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def app(house: House) -> Starlette:
    figures = Figures(house)
    routes = [
        Route(path, _endpoint(house, figures, path, each.act), methods=[each.method]) for path, each in ROUTES.items()
    ]
    told = JSONResponse(describe.description(ROUTES, house))
    routes += [Route("/openapi.json", lambda request: told, methods=["GET"])]
    routes += [Route("/metrics", lambda request: figures.response(), methods=["GET"])]
    routes += [Route(path, _still(name), methods=["GET"]) for path, name in PAGE.items()]
    handlers: dict[Any, Any] = {HTTPException: _odd}
    made = Starlette(routes=routes, exception_handlers=handlers)
    made.router.redirect_slashes = False
    made.add_middleware(Guard, house=house, figures=figures)
    return made


def _still(name: str) -> Callable[[Request], Response]:
    """A file of the page, read once: nothing that is asked for ever names a file."""
    data = files("regard").joinpath(name).read_bytes()
    return lambda request: Response(data, media_type=KINDS[name.rpartition(".")[2]])


def _odd(request: Request, error: HTTPException) -> JSONResponse:
    """Of a path or method that is not offered."""
    told = {404: "there is nothing here; GET /openapi.json tells what is offered", 405: "this is asked in another way"}
    response = refused(request.url.path, RefusedError(error.status_code, told.get(error.status_code, error.detail)))
    response.headers.update(error.headers or {})
    return response


def _endpoint(house: House, figures: Figures, path: str, act: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        try:
            response = await act(house, request)
        except RefusedError as error:
            response = refused(path, error)
        figures.count(path, response.status_code, time.perf_counter() - began)
        return response

    return answer


def refused(path: str, error: RefusedError) -> JSONResponse:
    """In the shape of the interface that was asked."""
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    if path.startswith("/v1/"):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        code = {401: "invalid_api_key", 404: "model_not_found", 503: "server_is_overloaded"}.get(error.status)
        told: Any = {"message": error.message, "type": kind, "param": error.param, "code": code}
    else:
        told = error.message
    return JSONResponse({"error": told}, error.status, headers)


class Guard:
    """Before anything is read: is there room, is there a key? And headers for every answer."""

    def __init__(self, app: ASGIApp, house: House, figures: Figures) -> None:
        self.app, self.house, self.figures, self.inside = app, house, figures, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        path = scope["path"]
        late = path in ("/translate", "/detect")  # whose clients may have it in the body
        if self.house.keys and not late and not known(self.house.keys, Request(scope)):
            response: Response = refused(path, RefusedError(401, "a key is needed, as Authorization: Bearer KEY"))
            response.headers["WWW-Authenticate"] = 'Basic realm="Regard"'
            await response(scope, receive, with_headers)
            return
        asks = path in ROUTES and ROUTES[path].asks is not None
        if asks and (self.inside >= self.house.limits.requests or self.house.full):
            self.figures.count(path, 503, 0.0)
            await refused(path, RefusedError(503, BUSY))(scope, receive, with_headers)
            return
        self.inside += 1
        try:
            await self.app(scope, receive, with_headers)
        finally:
            self.inside -= 1
