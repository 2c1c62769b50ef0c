"""From folders to a service that listens."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.engine.engine import cores
from regard.errors import UserError
from regard.serve.app import app
from regard.serve.config import Limits
from regard.serve.desk import Desk
from regard.serve.house import Direction, House
from regard.serve.languages import languages

HEADER = 1 << 16  # bytes of a request's head


def named(models: list[str]) -> list[tuple[str, Path, tuple[str, str] | None]]:
    """`FOLDER`, or `en-de=FOLDER` where the languages have to be told."""
    found = []
    for text in models:
        pair, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        languages = tuple(pair.split("-", 1)) if equals else None
        if languages is not None and len(languages) != 2:
            raise UserError(f"{text}: languages are named like en-de={folder}")
        name = path.resolve().name
        taken = [each[0] for each in found]
        while name in taken:
            name += "'"
        found.append((name, path, languages))
    return found


class Patient(H11Protocol):
    """Closes a connection whose request does not arrive in time: uvicorn itself waits for ever."""

    seconds = Limits().header

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit()

    def _limit(self) -> None:
        if getattr(self, "late", None) is not None:
            self.late.cancel()
            self.late = None
        if self.cycle is None or self.cycle.response_complete:
            self.late = self.loop.call_later(self.seconds, self._end)

    def _end(self) -> None:
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


def serve_models(
    models: list[str], *, host: str, port: int, engine: str, threads: int | None, key_file: Path | None
) -> None:
    """Until it is told to end."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    given = named(models)
    folders = [str(path) for _, path, _ in given]
    limits = Limits()
    work = {"engine": engine, "threads": threads or cores()}
    desk, looker = Desk(folders, limits, **work), Desk(folders, limits, engine="torch", threads=1)
    directions = [Direction(number, *(pair or languages(path)), None) for number, (_, path, pair) in enumerate(given)]
    house = House([name for name, _, _ in given], directions, limits, desk, looker, _keys(key_file))
    try:
        asyncio.run(run(house, host, port))
    except KeyboardInterrupt:
        sys.exit(130)


def _keys(path: Path | None) -> tuple[str, ...]:
    text = os.environ.get("REGARD_API_KEYS", "") if path is None else path.read_text("utf-8")
    return tuple(filter(None, (key.strip() for key in text.replace(",", "\n").splitlines())))


async def run(house: House, host: str, port: int) -> None:
    await house.open()
    config = uvicorn.Config(
        app(house),
        host=host,
        port=port,
        http=Patient,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        h11_max_incomplete_event_size=HEADER,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(house.limits.drain),
        backlog=256,
    )
    await uvicorn.Server(config).serve()
