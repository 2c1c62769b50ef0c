"""Who may ask."""

from __future__ import annotations

import base64
import hmac
from contextlib import suppress

from starlette.requests import Request


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
