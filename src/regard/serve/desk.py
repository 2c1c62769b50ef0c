"""Where requests wait, are put together, and are handed to a worker that is watched and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.frames import pack, read_async

TRIES = 2  # of a task whose worker ended under it
MERGED = ("translate",)  # jobs of which several requests can make one


class BusyError(Exception):
    """There is too much to do already; it may be asked again soon."""


class FailedError(Exception):
    """It cannot be done, and asking again does not help."""


@dataclass(eq=False)
class Task:
    """What one request wants: lines, and what is to be done with them."""

    how: dict[str, Any]
    texts: list[str]
    answer: asyncio.Future[list[Any]]
    heard: Callable[[dict[str, Any]], None] | None = None
    tries: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))


@dataclass(eq=False)
class Desk:
    """One worker, and what waits for it."""

    folders: list[str]
    limits: Limits
    engine: str = "auto"
    threads: int = 1
    ready: bool = False
    models: list[dict[str, Any]] = field(default_factory=list)
    restarts: int = 0
    waiting: deque[Task] = field(default_factory=deque)
    doing: list[Task] = field(default_factory=list)
    number: int = 0
    runner: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        """Start the worker, if it is not there yet; what it refuses is a mistake of the user's."""
        async with self.lock:
            if self.runner is None:
                await self._start()
                self.runner = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self.runner is not None:
            self.runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.runner
            await self._kill()

    async def ask(
        self, how: dict[str, Any], texts: list[str], heard: Callable[[dict[str, Any]], None] | None = None
    ) -> list[Any]:
        """An answer for each text; `heard` is told parts of it. Cancelled, it leaves nothing behind."""
        task = Task(how, texts, asyncio.get_running_loop().create_future(), heard)
        if sum(each.size for each in self.waiting) + task.size > self.limits.waiting:
            raise BusyError
        self.waiting.append(task)
        self.wake.set()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await task.answer
        except TimeoutError as error:
            raise BusyError from error
        finally:
            if task in self.waiting:
                self.waiting.remove(task)
            self._drop_if_alone(task)

    def _drop_if_alone(self, task: Task) -> None:
        """Stop the job in work, where nobody waits for it any more."""
        if task in self.doing and all(each.answer.done() for each in self.doing):
            self._send({"drop": self.number})

    def _take(self) -> list[Task]:
        """The oldest task, and others that can be done with it."""
        first = self.waiting.popleft()
        taken, lines = [first], len(first.texts)
        if first.how["do"] in MERGED:
            for task in list(self.waiting):
                if task.how == first.how and lines + len(task.texts) <= self.limits.together:
                    self.waiting.remove(task)
                    taken.append(task)
                    lines += len(task.texts)
        return taken

    async def _run(self) -> None:
        """Workers, one after another: each reads and works until it ends, or is found silent or stuck."""
        while True:
            parts = [asyncio.create_task(each()) for each in (self._read, self._work, self._watch)]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
            await self._replace()

    async def _work(self) -> None:
        """Hand out what waits, a job at a time."""
        while True:
            while not self.waiting:
                self.wake.clear()
                await self.wake.wait()
            self.doing, self.number = self._take(), self.number + 1
            self.done, self.progress = asyncio.get_running_loop().create_future(), time.monotonic()
            texts = [text for task in self.doing for text in task.texts]
            self._send({**self.doing[0].how, "texts": texts, "number": self.number})
            self._give(await self.done)
            self.doing = []

    def _give(self, found: dict[str, Any]) -> None:
        answers = iter(found.get("answer", ()))
        for task in self.doing:
            if "error" in found:
                self._settle(task, FailedError(found["error"]))
            else:
                merged = task.how["do"] in MERGED
                self._settle(task, [next(answers) for _ in task.texts] if merged else found["answer"])

    async def _read(self) -> None:
        """All that the worker says; ends with it."""
        while True:
            message = await read_async(self._out())
            self.signed = time.monotonic()
            if message.get("number") != self.number:
                continue
            self.progress = self.signed
            if "part" in message:
                for task in self.doing:
                    if task.heard is not None and not task.answer.done():
                        task.heard(message["part"])
            elif "progress" not in message and not self.done.done():
                self.done.set_result(message)

    async def _watch(self) -> None:
        """Ends when there is no sign of the worker, or none of its job."""
        self.signed = time.monotonic()
        while True:
            await asyncio.sleep(self.limits.silence / 10)
            stuck = self.doing and time.monotonic() > self.progress + self.limits.stuck
            if stuck or time.monotonic() > self.signed + self.limits.silence:
                return

    def _settle(self, task: Task, found: Any) -> None:
        if not task.answer.done():
            if isinstance(found, Exception):
                task.answer.set_exception(found)
            else:
                task.answer.set_result(found)

    async def _replace(self) -> None:
        """A new worker; what was in work is done again by it, once."""
        self.ready = False
        self.restarts += 1
        print("regard: a worker ended or hung, and is replaced", file=sys.stderr, flush=True)
        await self._kill()
        again, self.doing = self.doing, []
        for task in reversed(again):
            task.tries += 1
            if task.tries >= TRIES or task.heard is not None:
                self._settle(task, FailedError("the worker ended while it did this"))
            elif not task.answer.done():
                self.waiting.appendleft(task)
        while not self.ready:
            try:
                await self._start()
            except (UserError, OSError, asyncio.IncompleteReadError):
                await self._kill()
                await asyncio.sleep(1)

    async def _start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "regard.serve.worker"]
        self.process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 20)
        self._send({"folders": self.folders, "engine": self.engine, "threads": self.threads})
        message = await read_async(self._out())
        if "refused" in message:
            raise UserError(message["refused"])
        self.models, self.ready = message["ready"], True

    async def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):  # that it is gone is seen where it is read
            self.process.stdin.write(pack(message))

    def _out(self) -> asyncio.StreamReader:
        assert self.process.stdout is not None
        return self.process.stdout
