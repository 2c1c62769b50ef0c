"""The service under load, too much load, and misfortune. Needs a quiet machine; clients, service and worker share it.

    python -m bench.serving load MODEL FILE [--clients 32] [--seconds 300] [--texts 1]
    python -m bench.serving overload MODEL FILE [--seconds 60] [--texts 1]
    python -m bench.serving vanish MODEL FILE [--clients 200]
    python -m bench.serving drain MODEL FILE [--times 20]
    python -m bench.serving worker MODEL FILE [--times 10]

load: every answer is compared with what `regard run` says; sentences/s beside those of `regard run` and of a service
whose model answers at once. overload: five times what it can do, by the clock. vanish: clients that go in the middle.
drain: SIGTERM under load. worker: its worker killed, and stopped. Each prints its figures, and exits with 1 if one is
not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REGARD = ("-c", "from regard.cli.main import main; main()")
NULL = """
import asyncio, sys, time
from pathlib import Path
from regard.serve import server, worker
from regard.serve.config import Limits
from regard.serve.desk import Desk
from regard.serve.house import House, Place

if len(sys.argv) > 1:
    desk = Desk("null", Limits(), command=(sys.executable, __file__))
    house = House([Place("null", Path("null"), ("en", "de"), desk, desk)], Limits())
    asyncio.run(server.run(house, server._socket("127.0.0.1", 0)))
else:
    def run(self):
        self.model = self.receive()
        self.send({"ready": {"task": "translation", "tags": [], "engine": "none"}})
        self.start(1)
    told = lambda text: [{"text": text, "score": 0.0, "log_prob": 0.0, "tokens": text.split(), "parts": [], "ids": []}]
    worker.JOBS["translate"] = lambda model, job, tick, part: [told(text) for text in job["texts"]]
    worker.Worker.run, worker.alone_of = run, lambda model: model
    worker.main()
"""


@dataclass
class Service:
    process: asyncio.subprocess.Process
    port: int

    def tree(self) -> list[int]:
        """Its process and its workers'."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text("utf-8").split()
        return [own, *map(int, children)]

    def memory(self) -> float:
        """Resident, all of them, in MB."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1]) for pid in self.tree()]
        return sum(pages) * os.sysconf("SC_PAGESIZE") / 1e6

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def worked(self) -> float:
        """Seconds of processor that its workers have used."""
        ticks = 0
        for pid in self.tree()[1:]:
            after = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            ticks += int(after[11]) + int(after[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(*command: str) -> AsyncIterator[Service]:
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    port = 0
    while not port:
        line = (await process.stderr.readline()).decode()
        if not line:
            sys.exit("the service did not start")
        if line.startswith("http://"):
            port = int(line.rpartition(":")[2])
    rest = asyncio.create_task(process.stderr.read())
    try:
        yield Service(process, port)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await rest


def model_service(model: str) -> Any:
    return serving(*REGARD, "serve", f"en-de={model}", "--port", "0")


def request(body: bytes, path: str = "/translate", method: str = "POST") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection, kept open; as little work as it can do."""

    def __init__(self, port: int) -> None:
        self.port, self.writer = port, None

    async def ask(
        self, body: bytes, path: str = "/translate", method: str = "POST"
    ) -> tuple[int, bytes, dict[str, str]]:
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(request(body, path, method))
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = raw.rstrip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        found = await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(status.split()[1]), found, headers

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


@dataclass
class Tally:
    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: list[float] = field(default_factory=list)
    texts: int = 0
    wrong: int = 0
    without: int = 0
    """Refusals that do not say when to come back."""

    def told(self, name: str, seconds: float) -> str:
        times = sorted(self.times) or [float("nan")]
        spread = f"p50 {1e3 * statistics.median(times):.1f} ms, p99 {1e3 * times[int(0.99 * len(times))]:.1f} ms"
        return f"{name}: {self.texts / seconds:,.0f} sentences/s, {spread}, {dict(self.statuses)}, {self.wrong} wrong"


class Work:
    """Requests of some sentences each, and what is the right answer to each of them."""

    def __init__(self, texts: list[str], wanted: list[str] | None, size: int) -> None:
        self.texts, self.wanted, self.size, self.draw = texts, wanted, size, random.Random(0)

    def one(self) -> tuple[bytes, list[str] | None]:
        chosen = [self.draw.randrange(len(self.texts)) for _ in range(self.size)]
        body = json.dumps({"q": [self.texts[i] for i in chosen], "source": "en", "target": "de"})
        return body.encode(), None if self.wanted is None else [self.wanted[i] for i in chosen]

    async def send(self, client: Client, tally: Tally) -> None:
        body, wanted = self.one()
        began = time.perf_counter()
        status, found, headers = await client.ask(body)
        took = time.perf_counter() - began
        tally.statuses[status] += 1
        if status == 200:
            tally.times.append(took)
            tally.texts += self.size
            tally.wrong += wanted is not None and json.loads(found)["translatedText"] != wanted
        else:
            tally.refusals.append(took)
            tally.without += "retry-after" not in headers

    async def closed_loop(self, port: int, clients: int, seconds: float) -> Tally:
        """So many clients, each asking as soon as it was answered."""
        tally, end = Tally(), time.perf_counter() + seconds

        async def one() -> None:
            client = Client(port)
            while time.perf_counter() < end:
                await self.send(client, tally)
            client.close()

        await asyncio.gather(*(one() for _ in range(clients)))
        return tally


def by_command(model: str, texts: list[str]) -> tuple[list[str], float]:
    """What `regard run` says, and how many sentences it does in a second once it runs."""
    took = []
    for count in (1, 20):
        began = time.perf_counter()
        command = [sys.executable, *REGARD, "run", model]
        given = "".join(f"{text}\n" for text in texts * count)
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        took.append(time.perf_counter() - began)
        if count == 1:
            said = done.stdout.splitlines()
    return said, 19 * len(texts) / (took[1] - took[0])


async def load(model: str, texts: list[str], clients: int, seconds: float, size: int) -> bool:
    said, alone = by_command(model, texts)
    print(f"regard run: {alone:,.0f} sentences/s", flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".py") as null:
        null.write(NULL)
        null.flush()
        async with serving(null.name, "serve") as service:
            ceiling = await Work(texts, None, size).closed_loop(service.port, clients, 15)
    print(ceiling.told("a model that answers at once", 15), flush=True)
    async with model_service(model) as service:
        work, memory = Work(texts, said, size), list[float]()
        await work.closed_loop(service.port, clients, 5)
        part = seconds / 10
        tally = Tally()
        for _ in range(10):
            some = await work.closed_loop(service.port, clients, part)
            for name in ("times", "statuses", "refusals", "texts", "wrong"):
                setattr(tally, name, getattr(tally, name) + getattr(some, name))
            memory.append(service.memory())
        print(tally.told(f"{clients} clients, {size} sentences a request, {seconds:.0f} s", seconds))
        lower = min(alone, ceiling.texts / 15)
        share = f"{tally.texts / seconds / lower:.2f} of the lower of the two"
        print(f"{share}; resident MB {memory[0]:.0f} to {memory[-1]:.0f}")
        return set(tally.statuses) == {200} and not tally.wrong


async def overload(model: str, texts: list[str], seconds: float, size: int) -> bool:
    async with model_service(model) as service:
        work = Work(texts, None, size)
        await work.closed_loop(service.port, 32, 5)
        usual = await work.closed_loop(service.port, 32, 15)
        capacity = usual.texts / size / 15
        idle = await work.closed_loop(service.port, 1, 3)
        memory, tally, pool, began = service.memory(), Tally(), list[Client](), time.perf_counter()

        async def one() -> None:
            client = pool.pop() if pool else Client(service.port)
            await work.send(client, tally)
            pool.append(client)

        tasks: set[asyncio.Task[None]] = set()
        sent = early = 0
        while (now := time.perf_counter() - began) < seconds:
            while sent < 5 * capacity * now:
                task = asyncio.create_task(one())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            await asyncio.sleep(0.002)
            early = tally.texts if now < 5 else early  # until then they queue up
        good = tally.texts - early
        await asyncio.gather(*tasks)
        print(f"capacity {capacity:.0f} requests/s of {size}, sent {sent / seconds:.0f}/s for {seconds:.0f} s")
        print(tally.told("overload", seconds))
        late = sorted(tally.refusals)
        refused = f"p50 {1e3 * statistics.median(late):.1f} ms, p99 {1e3 * late[int(0.99 * len(late))]:.1f} ms"
        share = f"goodput from second 5 on {good / size / (seconds - 5) / capacity:.2f} of capacity"
        print(f"refused in {refused}, {tally.without} without Retry-After; {share}", end="; ")
        print(f"resident MB {memory:.0f} to {service.memory():.0f}")
        after = await work.closed_loop(service.port, 1, 5)
        print(f"alone before: p50 {1e3 * statistics.median(idle.times):.1f} ms; in the 5 s after: "
              f"{1e3 * statistics.median(after.times):.1f} ms, last {1e3 * after.times[-1]:.1f} ms")  # fmt: skip
        return set(tally.statuses) <= {200, 429, 503} and not tally.without


async def vanish(model: str, texts: list[str], clients: int) -> bool:
    async with model_service(model) as service:
        work = Work(texts, None, 64)
        await work.closed_loop(service.port, 4, 3)
        files, memory = service.files(), service.memory()

        async def one(pause: float) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", service.port)
            body, _ = work.one()
            writer.write(request(body))
            await writer.drain()
            await asyncio.sleep(pause)
            writer.transport.abort()

        await asyncio.gather(*(one(0.05 + 0.1 * i / clients) for i in range(clients)))
        began = time.perf_counter()
        used = service.worked()
        while (now := service.worked()) > used or time.perf_counter() < began + 0.2:  # still at work
            used = now
            await asyncio.sleep(0.1)
        stopped = time.perf_counter() - began
        client = Client(service.port)
        _, state, _ = await client.ask(b"", "/ready", "GET")
        client.close()
        await asyncio.sleep(0.3)
        print(f"{clients} clients went: work stopped within {stopped:.1f} s, {state.decode()}, open files {files} to "
              f"{service.files()}, resident MB {memory:.0f} to {service.memory():.0f}")  # fmt: skip
        return json.loads(state)["waiting"] == 0 and stopped < 5


@dataclass
class Drained:
    answered: int = 0
    lost: int = 0
    """Asked before the service was told to end, and never answered."""
    turned: int = 0
    """Connections that were closed after that."""
    seconds: float = 0.0
    codes: Counter[int] = field(default_factory=Counter)


async def drain_once(model: str, texts: list[str], turn: int, found: Drained) -> None:
    async with model_service(model) as service:
        work, told = Work(texts, None, 16), float("inf")

        async def one() -> None:
            client, tally = Client(service.port), Tally()
            while True:
                began = time.perf_counter()
                try:
                    await work.send(client, tally)
                    found.answered += 1
                except (OSError, asyncio.IncompleteReadError):
                    found.lost += began < told - 0.02
                    found.turned += 1
                    return

        clients = [asyncio.create_task(one()) for _ in range(16)]
        await asyncio.sleep(1 + random.Random(turn).random())
        told = time.perf_counter()
        service.process.send_signal(signal.SIGTERM)
        found.codes[await service.process.wait()] += 1
        found.seconds = max(found.seconds, time.perf_counter() - told)
        await asyncio.gather(*clients)


async def drain(model: str, texts: list[str], times: int) -> bool:
    found = Drained()
    for turn in range(times):
        await drain_once(model, texts, turn, found)
    print(f"{times} SIGTERMs: {found}")
    return not found.lost and set(found.codes) == {0}


async def misfortune(model: str, texts: list[str], times: int, number: int) -> bool:
    seen, back, tally, stop = list[float](), list[float](), Tally(), asyncio.Event()
    async with model_service(model) as service:

        async def some() -> None:
            client, work = Client(service.port), Work(texts, None, 4)
            while not stop.is_set():
                await work.send(client, tally)

        asking = [asyncio.create_task(some()) for _ in range(4)]
        probe = Client(service.port)
        for _ in range(times):
            await asyncio.sleep(0.5)
            began = time.perf_counter()
            os.kill(service.tree()[1], number)
            for times_of, status in ((seen, 503), (back, 200)):
                while (await probe.ask(b"", "/ready", "GET"))[0] != status:
                    await asyncio.sleep(0.005)
                times_of.append(time.perf_counter() - began)
        stop.set()
        await asyncio.gather(*asking)
    name = signal.Signals(number).name
    print(f"{name} {times} times: seen in {max(seen):.2f} s, back in {max(back):.2f} s at most; {dict(tally.statuses)}")
    return set(tally.statuses) <= {200, 503} and not tally.without


async def worker(model: str, texts: list[str], times: int) -> bool:
    return all([await misfortune(model, texts, times, number) for number in (signal.SIGKILL, signal.SIGSTOP)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "overload", "vanish", "drain", "worker"])
    parser.add_argument("model")
    parser.add_argument("file", type=Path)
    parser.add_argument("--clients", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--texts", type=int, default=1)
    parser.add_argument("--times", type=int)
    given = parser.parse_args()
    texts = [line for line in given.file.read_text("utf-8").splitlines() if line.strip()]
    acts = {
        "load": lambda: load(given.model, texts, given.clients or 32, given.seconds or 300, given.texts),
        "overload": lambda: overload(given.model, texts, given.seconds or 60, given.texts),
        "vanish": lambda: vanish(given.model, texts, given.clients or 200),
        "drain": lambda: drain(given.model, texts, given.times or 20),
        "worker": lambda: worker(given.model, texts, given.times or 10),
    }
    sys.exit(not asyncio.run(acts[given.what]()))


if __name__ == "__main__":
    main()
