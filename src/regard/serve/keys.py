"""Who may ask."""

import base64
import hmac
import os
import socket
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

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
