"""From bytes to what was asked, and back: everything is bounded before it is understood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import BusyError, FailedError, LostError

T = TypeVar("T")
FIELDS = 64  # of a form
BUSY = "there is too much to do; try again soon"


class RefusedError(Exception):
    """A request that gets no answer but why."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param


async def asked(request: Request, kind: type[T], limits: Limits) -> T:
    """The body, as JSON or as a form, checked; what stands behind the question mark counts too."""
    data = await _body(request, limits)
    given: dict[str, Any] = dict(request.query_params)
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if form == "application/x-www-form-urlencoded":
            for name, value in parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS):
                given[name] = [*_listed(given[name]), value] if name in given else value
        elif data:
            found = json.loads(data, parse_constant=_no_number)
            if not isinstance(found, dict):
                raise RefusedError(400, "the body has to be a JSON object")
            given |= found
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body cannot be read ({type(error).__name__})") from error
    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(map(str, first["loc"][:1])) or "body"
        raise RefusedError(400, f"{name}: {first['msg']}", param=name) from error


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _no_number(name: str) -> Any:
    raise ValueError(name)


async def _body(request: Request, limits: Limits) -> bytes:
    told = request.headers.get("content-length", "0")
    if not told.isdigit() or int(told[:12]) > limits.body:
        raise RefusedError(413, f"a request has at most {limits.body:,} bytes")
    data = bytearray()
    try:
        async with asyncio.timeout(limits.header):
            async for chunk in request.stream():
                data += chunk
                if len(data) > limits.body:
                    raise RefusedError(413, f"a request has at most {limits.body:,} bytes")
    except TimeoutError as error:
        raise RefusedError(408, "the request did not arrive in time") from error
    return bytes(data)


def bounded(texts: Sequence[str], limits: Limits, param: str) -> None:
    if len(texts) > limits.texts:
        raise RefusedError(400, f"at most {limits.texts} texts are taken at once", param=param)
    if any(len(text) > limits.characters for text in texts) or sum(map(len, texts)) > limits.all_characters:
        most = f"a text has at most {limits.characters:,} characters, and all have {limits.all_characters:,}"
        raise RefusedError(400, most, param=param)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; it is cancelled when the client goes."""
    doing, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise RefusedError(499, "the client is gone")
        return doing.result()
    except BusyError as error:
        raise RefusedError(503, BUSY) from error
    except UserError as error:
        raise RefusedError(400, str(error)) from error
    except FailedError as error:
        raise RefusedError(500 if isinstance(error, LostError) else 400, str(error)) from error
    finally:
        doing.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
