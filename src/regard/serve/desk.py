"""Where requests for a model wait, are put together, and are handed to a worker that is watched and replaced."""

import asyncio
import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any

from regard.errors import UserError
from regard.progress import warn
from regard.serve.config import Limits

TRIES = 2  # of a task whose worker ended under it
MERGED = ("translate", "run", "embed")  # jobs of which several requests can make one
LINE = 30  # characters that take as long as that there is a line at all
FEW = 16  # lines that one thread does as fast as several
SURE = 6_000  # of the same, that are always taken: few lines are slower than many, and tell too long a time for them
FORGET = 0.9  # of what is known of the pace, how much counts after the next job
MESSAGE = 1 << 28  # bytes of a worker's message at most
WORKER = (sys.executable, "-m", "regard.serve.worker")
Heard = Callable[[dict[str, Any]], None]


class RefusedError(Exception):
    """A request that gets no answer but why, and a status of HTTP."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param


class BusyError(RefusedError):
    """There is too much to do already, or it is too much for the pace of late; it may be asked again soon."""

    def __init__(self, message: str = "there is too much to do; try again soon") -> None:
        super().__init__(503, message)


@dataclass(eq=False)
class Task:
    """What one request wants: lines, and what is to be done with them; `size` is about how much work that is."""

    how: dict[str, Any]
    texts: list[str]
    size: int
    heard: Heard | None = None
    answer: asyncio.Future[Any] = field(default_factory=asyncio.Future)
    tries: int = 0
    alone: bool = False  # as a job that it was part of failed


@dataclass(eq=False)
class Job:
    """What the worker was given: one task, or several."""

    number: int
    tasks: list[Task]
    done: asyncio.Future[dict[str, Any]] = field(default_factory=asyncio.Future)
    began: float = field(default_factory=time.monotonic)
    progress: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        return sum(task.size for task in self.tasks)


@dataclass
class Pace:
    """How much is done in a second, recent jobs foremost."""

    work: float = 0.0
    seconds: float = 0.0

    def add(self, work: int, seconds: float) -> None:
        self.work, self.seconds = FORGET * self.work + work, FORGET * self.seconds + seconds

    def time(self, work: int) -> float:
        return work * self.seconds / self.work if self.work else 0.0


@dataclass(eq=False)
class Desk:
    """One worker with one model, and what waits for it."""

    folder: str
    limits: Limits
    engine: str = "auto"
    threads: int = 1
    command: tuple[str, ...] = WORKER
    model: dict[str, Any] = field(default_factory=dict)  # what the worker says of its model
    refused: str = ""
    """Why there is no worker and will be none."""
    restarts: int = 0
    signed: float = -inf  # when the worker was heard of last
    waiting: deque[Task] = field(default_factory=deque)
    doing: dict[int, Job] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    number: int = 0
    process: Any = None  # asyncio's; it reads and writes messages, each a line of JSON
    runner: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ready(self) -> bool:
        return time.monotonic() < self.signed + self.limits.unsure

    @property
    def full(self) -> bool:
        """Whether one more would have to wait too long."""
        ahead = sum(each.size for each in self.waiting) + sum(job.size for job in self.doing.values())
        return self.pace.time(ahead) > self.limits.wait

    async def open(self) -> None:
        """Start the worker, if it is not there yet; what it refuses is a mistake of the user's."""
        async with self.lock:
            if self.runner is None and not self.refused:
                try:
                    await self._start()
                    self.runner = asyncio.create_task(self._run())
                except (UserError, asyncio.IncompleteReadError):
                    await self._kill()
                    self.refused = self.refused or f"{self.folder}: its worker ended at once; the log says why"
            if self.refused:
                raise UserError(self.refused)

    async def close(self) -> None:
        if self.runner is not None:
            self.runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.runner
        await self._kill()

    def hand_in(self, how: dict[str, Any], texts: list[str], size: int = 0, heard: Heard | None = None) -> Task:
        """A task that waits for its turn; parts of its answer are told to `heard`. One of a size that would take long
        is refused, unless it is small, or jobs were quick of late: theirs is not the time of work."""
        if self.full:
            raise BusyError
        if size > SURE and self.pace.seconds > self.limits.wait and self.pace.time(size) > self.limits.long:
            most = f"at most {self.limits.long:.0f} are spent on a request; send less at once"
            raise BusyError(f"this takes about {self.pace.time(size):.0f} seconds at the pace of late; {most}")
        task = Task(how, texts, size or sum(LINE + len(text) for text in texts) or 1, heard)
        self.waiting.append(task)
        self.wake.set()
        return task

    async def result(self, task: Task) -> Any:
        """Of a task that was handed in. Whoever is cancelled here leaves nothing behind."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await task.answer
        except TimeoutError as error:
            raise BusyError from error
        finally:
            task.answer.cancel()
            if task in self.waiting:
                self.waiting.remove(task)
            for job in self.doing.values():
                if task in job.tasks and all(each.answer.done() for each in job.tasks):
                    self._send({"drop": job.number})  # nobody waits for it any more

    async def ask(self, how: dict[str, Any], texts: list[str], size: int = 0) -> Any:
        return await self.result(self.hand_in(how, texts, size))

    def _take(self) -> list[Task]:
        """The oldest task, and others that can be done with it; one that a worker died of is done alone."""
        first = self.waiting.popleft()
        taken, lines = [first], len(first.texts)
        if first.how["do"] in MERGED and not first.alone:
            for task in list(self.waiting):
                if lines + len(task.texts) <= self.limits.together and task.how == first.how and not task.alone:
                    self.waiting.remove(task)
                    taken.append(task)
                    lines += len(task.texts)
        return taken

    async def _run(self) -> None:
        """Workers, one after another: each reads and works until it ends, or is found silent or stuck."""
        while True:
            lanes = [self._work] * self.model.get("lanes", 1)
            parts = [asyncio.create_task(each()) for each in (self._read, *lanes)]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
            await self._replace()

    async def _work(self) -> None:
        """Hand out what waits, a job at a time; a few lines, or what is done beside another job, get one thread."""
        while True:
            while not self.waiting:
                self.wake.clear()
                await self.wake.wait()
            self.number += 1
            job = Job(self.number, self._take())
            texts = [text for task in job.tasks for text in task.texts]
            alone = bool(self.doing) or len(texts) <= FEW
            self.doing[job.number] = job
            self._send({**job.tasks[0].how, "texts": texts, "number": job.number, "alone": alone})
            message = await job.done
            self._give(job, message)
            if "answer" in message and job.tasks[0].how["do"] != "detect":  # which takes no time
                self.pace.add(job.size, (time.monotonic() - job.began) / len(self.doing))
            del self.doing[job.number]

    def _give(self, job: Job, message: dict[str, Any]) -> None:
        answers, failed = iter(message.get("answer", ())), "error" in message
        for task in job.tasks:
            merged = task.how["do"] in MERGED
            answer = list(islice(answers, len(task.texts))) if merged else message.get("answer")
            if task.answer.done() or (failed and len(job.tasks) > 1):
                continue
            if failed:
                task.answer.set_exception(RefusedError(400, message["error"]))
            else:
                task.answer.set_result(answer)
        self._again(job.tasks)  # of an error in one of several

    async def _read(self) -> None:
        """All that the worker says; ends with it, when there is no sign of it, or when a job makes no progress."""
        while True:
            async with asyncio.timeout(self.limits.silence):
                message = json.loads(await self.process.stdout.readuntil())
            self.signed = time.monotonic()
            if any(self.signed > job.progress + self.limits.stuck for job in self.doing.values()):
                return
            job = self.doing.get(message.get("number", 0))
            if job is None:
                continue
            job.progress = self.signed
            if "part" in message:
                for task in job.tasks:
                    if task.heard is not None and not task.answer.done():
                        task.heard(message["part"])
            elif "progress" not in message and not job.done.done():
                job.done.set_result(message)

    async def _replace(self) -> None:
        """A new worker; what was in work is done again by it, once."""
        self.signed = -inf
        self.restarts += 1
        warn("a worker ended or hung, and is replaced")
        await self._kill()
        again = [task for job in self.doing.values() for task in job.tasks if not task.answer.done()]
        self.doing = {}
        for task in again:
            task.tries += 1
            if task.tries >= TRIES or task.heard is not None:
                task.answer.set_exception(RefusedError(500, "the worker ended while it did this"))
        self._again(again)
        while True:
            try:
                return await self._start()
            except (UserError, OSError, asyncio.IncompleteReadError):
                await self._kill()
                await asyncio.sleep(1)

    def _again(self, tasks: list[Task]) -> None:
        """Tasks wait again, each to be done by itself."""
        for task in reversed([each for each in tasks if not each.answer.done()]):
            task.alone = True
            self.waiting.appendleft(task)
            self.wake.set()

    async def _start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe, limit=MESSAGE)
        self._send({"folder": self.folder, "engine": self.engine, "threads": self.threads})
        message = json.loads(await self.process.stdout.readuntil())
        if "refused" in message:
            self.refused = message["refused"]
            raise UserError(self.refused)
        self.model, self.signed = message["ready"], time.monotonic()

    async def _kill(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):  # that it is gone is seen where it is read
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
