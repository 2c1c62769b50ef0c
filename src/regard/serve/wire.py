"""Who may ask, and from bytes to what was asked: everything is bounded before it is understood."""

import asyncio
import base64
import hmac
import json
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.requests import Request

from regard.serve.config import Limits
from regard.serve.desk import RefusedError
from regard.tasks.options import listed

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
MOST = Limits()
FORM = "application/x-www-form-urlencoded"
FIELDS = MOST.texts + 16  # of a form
LARGE = 1 << 14  # bytes of a body that is read beside the event loop
GONE = "the client is gone"


def _in_all(texts: str | list[str]) -> str | list[str]:
    every = listed(texts)
    if sum(1 + text.count("\n") for text in every) > MOST.lines:
        raise ValueError(f"at most {MOST.lines:,} lines are taken at once")
    if sum(map(len, every)) > MOST.all_characters:
        raise ValueError(f"at most {MOST.all_characters:,} characters are taken at once")
    return texts


Name = Annotated[str, Field(max_length=100)]
Text = Annotated[str, Field(max_length=MOST.characters)]
Texts = Annotated[Text | Annotated[list[Text], Field(min_length=1, max_length=MOST.texts)], AfterValidator(_in_all)]


async def asked(request: Request, kind: type[M], *, form: bool = False) -> M:
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
    if parts > MOST.all_characters + MOST.lines:  # more than there can be in texts
        raise RefusedError(400, "the body has too many parts")
    try:
        given = await asyncio.to_thread(read, given, data) if len(data) > LARGE else read(given, data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body cannot be read ({type(error).__name__})") from error
    for name in given.keys() & kind.model_fields:  # pydantic would tell of every mistake in a long list
        if isinstance(given[name], list | dict) and len(given[name]) > MOST.texts:
            raise RefusedError(400, f"{name}: has at most {MOST.texts} parts", param=name)
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False, include_context=False)
        name = str(errors[0]["loc"][0]) if errors[0]["loc"] else "body"
        own = [each for each in errors if each["loc"][:1] == errors[0]["loc"][:1]]  # of a text, then of a list of them
        message = own[-1 if isinstance(given.get(name), list) else 0]["msg"].removeprefix("Value error, ")
        raise RefusedError(400, f"{name}: {message}", param=name) from error


def _form(given: dict[str, Any], data: bytes) -> dict[str, Any]:
    for name, value in parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS):
        given[name] = [*listed(given[name]), value] if name in given else value
    return given


def _json(given: dict[str, Any], data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8-sig")
    found = json.loads(text, parse_constant=_no_number) if text else {}
    if not isinstance(found, dict):
        raise RefusedError(400, "the body has to be a JSON object")
    if "\\ud" in text or "\\uD" in text:
        json.dumps(found, ensure_ascii=False).encode()  # half of a character raises here, not where it is answered
    return given | found


def _no_number(name: str) -> Any:
    raise ValueError(name)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; it is cancelled when the client goes."""
    doing, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise RefusedError(499, GONE)
        return doing.result()
    finally:
        doing.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def known(keys: tuple[str, ...], request: Request, body: str = "") -> bool:
    """A key as a bearer token, as the password that browsers ask for, behind the question mark, or in the body."""
    given = [request.query_params.get("api_key", ""), body]
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        given.append(value.strip())
    elif kind.lower() == "basic":
        with suppress(ValueError):  # binascii.Error and UnicodeDecodeError are such
            given.append(base64.b64decode(value, validate=True).decode().partition(":")[2])
    found = [hmac.compare_digest(key.encode(), one.encode()) for key in keys for one in given]  # all, in constant time
    return any(found)


def own_names(host: str = "") -> frozenset[str]:
    """Where it listens, what this machine calls itself, and REGARD_HOSTS, with commas."""
    machine = socket.gethostname()
    names = [host, "localhost", machine, f"{machine}.local", *os.environ.get("REGARD_HOSTS", "").split(",")]
    return frozenset(name.strip().lower().rstrip(".") for name in names if name.strip())


def is_own_host(request: Request, names: frozenset[str]) -> bool:
    """Whether it is asked by a name of its own, or by an address: any other name may be that of a foreign page, bound
    to this machine after it was loaded, so that the browser lets the page read what is answered."""
    with suppress(ValueError):
        name = (urlsplit(f"//{request.headers.get('host', '127.0.0.1')}").hostname or "").rstrip(".")
        return name in names or name.endswith(".localhost") or bool(ip_address(name))
    return False


def is_own_page(request: Request) -> bool:
    """Whether it is sent by no page, as far as browsers tell, or by one from here."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None or origin is None:
        return site in (None, "same-origin", "none")
    return origin.lower().partition("://")[2] == request.headers.get("host", "").lower()
