"""Messages between the service and its workers: JSON, each after its length in four bytes."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO

MOST = 1 << 28  # bytes of a message


def pack(message: dict[str, Any]) -> bytes:
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return struct.pack(">I", len(data)) + data


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message, or None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return _parsed(stream.read(_size(head)))


async def read_async(stream: asyncio.StreamReader) -> dict[str, Any]:
    """The next message; asyncio.IncompleteReadError at the end."""
    return _parsed(await stream.readexactly(_size(await stream.readexactly(4))))


def _size(head: bytes) -> int:
    size: int = struct.unpack(">I", head)[0]
    if size > MOST:
        raise ValueError(f"a message of {size} bytes")
    return size


def _parsed(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return found
