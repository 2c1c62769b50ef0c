"""From bytes to what was asked, and back: everything is bounded before it is understood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, Field, ValidationError, WithJsonSchema
from starlette.requests import Request

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import BusyError, FailedError, LostError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
MOST = Limits()  # which the descriptions of requests tell
FORM = "application/x-www-form-urlencoded"
FIELDS = MOST.texts + 16  # of a form
LARGE = 1 << 14  # bytes of a body that is read beside the event loop
GONE = "the client is gone"
BUSY = "there is too much to do; try again soon"
Name = Annotated[str, Field(max_length=100)]
TEXT = {"type": "string", "maxLength": MOST.characters}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": MOST.texts}
Text = Annotated[str, WithJsonSchema(TEXT)]  # `bounded` sees to it, in plain words
Texts = Annotated[str | list[str], WithJsonSchema({"anyOf": [TEXT, TEXTS]})]


class RefusedError(Exception):
    """A request that gets no answer but why."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param


async def asked(request: Request, kind: type[M], limits: Limits, *, form: bool = False) -> M:
    """The body, as JSON (called so: browsers send other types for any page) or where it may be one as a form, checked;
    what stands behind the question mark counts too."""
    data = await request.body()
    given: dict[str, Any] = dict(request.query_params)
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    read = _form if form and content == FORM else _json
    if data and content != "application/json" and read is _json:
        forms = f", or as {FORM}" if form else ""
        raise RefusedError(415, f"the body is {content or 'of no type'}; send JSON as application/json{forms}")
    parts = sum(map(data.count, (b",", b"[", b"{")))
    if parts > limits.all_characters + limits.lines:  # more than there can be in texts
        raise RefusedError(400, "the body has too many parts")
    try:
        given = await asyncio.to_thread(read, given, data) if len(data) > LARGE else read(given, data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body cannot be read ({type(error).__name__})") from error
    for name in given.keys() & kind.model_fields:  # pydantic would tell of every mistake in a long list
        if isinstance(given[name], list | dict) and len(given[name]) > limits.texts:
            raise RefusedError(400, f"{name}: has at most {limits.texts} parts", param=name)
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(map(str, first["loc"][:1])) or "body"
        raise RefusedError(400, f"{name}: {first['msg']}", param=name) from error


def _form(given: dict[str, Any], data: bytes) -> dict[str, Any]:
    for name, value in parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS):
        given[name] = [*_listed(given[name]), value] if name in given else value
    return given


def _json(given: dict[str, Any], data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8-sig")
    found = json.loads(text, parse_constant=_no_number) if text else {}
    if not isinstance(found, dict):
        raise RefusedError(400, "the body has to be a JSON object")
    if "\\ud" in text or "\\uD" in text:
        json.dumps(found, ensure_ascii=False).encode()  # half of a character raises here, not where it is answered
    return given | found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _no_number(name: str) -> Any:
    raise ValueError(name)


def bounded(texts: Sequence[str], limits: Limits, param: str) -> None:
    if not texts:
        raise RefusedError(400, f"{param}: holds no text", param=param)
    if len(texts) > limits.texts:
        raise RefusedError(400, f"at most {limits.texts} texts are taken at once", param=param)
    if sum(1 + text.count("\n") for text in texts) > limits.lines:
        raise RefusedError(400, f"at most {limits.lines:,} lines are taken at once", param=param)
    if any(len(text) > limits.characters for text in texts) or sum(map(len, texts)) > limits.all_characters:
        most = f"a text has at most {limits.characters:,} characters, and all have {limits.all_characters:,}"
        raise RefusedError(400, most, param=param)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; it is cancelled when the client goes."""
    doing, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise RefusedError(499, GONE)
        return doing.result()
    except BusyError as error:
        raise RefusedError(503, str(error) or BUSY) from error
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
