"""From folders to a service that listens."""

import asyncio
import logging
import os
import signal
import socket
import sys
from itertools import chain, count
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.engine.engine import cores
from regard.errors import UserError
from regard.progress import say, warn
from regard.serve.app import app
from regard.serve.config import Limits
from regard.serve.desk import Desk
from regard.serve.house import House, Languages, Place
from regard.serve.wire import own_names

HEADER = 1 << 16  # bytes of a request's head


def named(models: list[str]) -> list[tuple[str, Path, Languages | None]]:
    """`FOLDER`, or `en-de=FOLDER` where the languages have to be told; folders of one name are numbered."""
    found: list[tuple[str, Path, Languages | None]] = []
    for text in models:
        pair, equals, folder = text.partition("=")
        source, dash, target = pair.partition("-")
        path = Path(folder if equals else text)
        if equals and not (source and dash and target):
            raise UserError(f"{text}: languages are named like en-de={folder}")
        names = [each[0] for each in found]
        name = path.resolve().name
        name = next(filter(lambda each: each not in names, chain([name], (f"{name}-{i}" for i in count(2)))))
        found.append((name, path, (source, target) if equals else None))
    return found


class Patient(H11Protocol):
    """Closes a connection whose request is late, or that takes no answer: uvicorn itself waits for ever."""

    seconds, taking = Limits().header, Limits().seconds
    late: asyncio.TimerHandle | None = None
    slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.slow = self.loop.call_later(self.taking, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.slow is not None:
            self.slow.cancel()

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _limit(self) -> None:
        """The time begins with the first byte of a request; those that follow do not prolong it."""
        if self._idle:
            self.late = self.late or self.loop.call_later(self.seconds, self._end)
        elif self.late is not None:
            self.late.cancel()
            self.late = None

    def _end(self) -> None:
        self.late = None
        if self._idle and not self.transport.is_closing():
            self.transport.close()


def serve_models(
    models: list[str], *, host: str, port: int, engine: str, threads: int | None, key_file: Path | None
) -> None:
    """Until it is told to end."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    keys, limits, places = _keys(key_file), Limits(), list[Place]()
    for name, path, pair in named(models):
        desk = Desk(str(path), limits, engine=engine, threads=threads or cores())
        places.append(Place(name, path, pair, desk, Desk(str(path), limits, engine="torch")))
    listening = _socket(host, port)
    if not keys and host not in ("127.0.0.1", "::1", "localhost"):
        warn(f"whoever reaches {host} may ask, as there are no keys; `key_file` asks for one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn takes it while it serves, ends, and passes it on
    try:
        asyncio.run(run(House(places, limits, keys, own_names(host)), listening))
    except KeyboardInterrupt:
        sys.exit(130)


def _socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=512)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer's body waits 40 ms for its head
        return made
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{host} port {port} cannot be had: {why}; name another `host` or `port`") from error


def _keys(path: Path | None) -> tuple[str, ...]:
    try:
        lines = path.read_text("utf-8").splitlines() if path else os.environ.get("REGARD_API_KEYS", "").split(",")
    except (OSError, UnicodeError) as error:
        raise UserError(f"{path}: cannot be read as keys, one a line: {error}") from error
    keys = tuple(key.strip() for key in lines if key.strip())
    if path and not keys:
        raise UserError(f"{path}: holds no key; write one a line, or drop `key_file`")
    return keys


async def run(house: House, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    try:
        say("loading")
        await house.open()
        for place in house.places:
            own = [f"{each.source} to {each.target}" for each in house.directions if each.place is place]
            say(f"{place.name}: {', '.join(own) or place.desk.model['task']} ({place.desk.model['engine']})")
        say(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        how: dict[str, Any] = {"ws": "none", "proxy_headers": False, "h11_max_incomplete_event_size": HEADER}
        how |= {"timeout_keep_alive": 30, "timeout_graceful_shutdown": int(house.limits.drain)}
        how |= {"access_log": False, "log_level": "error", "server_header": False}  # what is no HTTP is no news
        await uvicorn.Server(uvicorn.Config(app(house), http=Patient, **how)).serve(sockets=[listening])
    finally:
        await house.close()
