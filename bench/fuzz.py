"""Requests that nobody should send, to a service of a translator and a language model: each is answered or refused.

    python -m bench.fuzz TRANSLATOR LANGUAGE_MODEL [--count N] [--seed N]      (5,000 requests in some minutes)

First named ones, by bare sockets (slow, broken, huge, deep); then what schemathesis makes of the service's own
description, right and wrong; then valid requests with bytes of them changed. Between them a golden request has to be
answered as before. Exit status 1 if there was a 5xx other than 503 with Retry-After, a hang, an answer of a status that
a case does not expect, a golden request that was answered otherwise, or a worker that had to be replaced.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.clients import PROMPT, TEXT, At
from bench.odd import Case, Offer, cases, mutated, valid
from tests.serve.toys import Service, service

PATIENCE = 15.0  # seconds until a request counts as hung
SOON = 0.5  # seconds after which a client of changed bytes says that no more will come
QUICK = 5.0  # seconds for a golden request, behind whatever is in work
AT_ONCE = 8
BETWEEN = 500  # requests between two golden ones
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SETTINGS = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]\n'


@dataclass(frozen=True)
class Answer:
    """A status, or None where the service closed without one."""

    status: int | None
    seconds: float = 0.0
    head: bytes = b""
    hung: bool = False

    @property
    def fault(self) -> str:
        """What no request may bring about."""
        if self.hung:
            return f"no answer in {PATIENCE:.0f} s"
        if self.status == 503:
            return "" if b"retry-after:" in self.head.lower() else "503 without Retry-After"
        return f"status {self.status}" if (self.status or 0) >= 500 else ""


def ask(port: int, sent: bytes | Callable[[socket.socket], None], *, patient: bool = True) -> Answer:
    """By a socket of its own. Whoever is not patient says after a while that no more will come."""
    began, head, hung = time.perf_counter(), b"", False
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as way:
        try:
            if callable(sent):
                sent(way)
            else:
                way.sendall(sent)
        except TimeoutError:
            return Answer(None, time.perf_counter() - began, hung=True)
        except OSError:
            pass  # it was closed meanwhile, perhaps after an answer
        way.settimeout(PATIENCE if patient else SOON)
        while not re.search(rb"HTTP/1.1 [2-5].*\r\n\r\n", head, re.DOTALL):
            try:
                data = way.recv(1 << 16)
            except TimeoutError:
                if way.gettimeout() == PATIENCE:
                    hung = True
                    break
                way.settimeout(PATIENCE)
                with suppress(OSError):
                    way.shutdown(socket.SHUT_WR)
                continue
            except OSError:
                break
            if not data:
                break
            head += data
    found = re.search(rb"HTTP/1.1 ([2-5]\d\d)", head)
    return Answer(int(found[1]) if found else None, time.perf_counter() - began, head, hung)


@dataclass
class Tally:
    """What became of everything that was asked."""

    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    golden: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, answer: Answer, expected: Sequence[int | None] = ()) -> None:
        with self.lock:
            self.statuses["hung" if answer.hung else str(answer.status or "closed")] += 1
            fault = answer.fault
            if not fault and expected and answer.status not in (*expected, 503):
                fault = f"{answer.status or 'closed'}, not {' or '.join(str(each or 'closed') for each in expected)}"
            if fault:
                self.faults.append(f"{name}: {fault}")


class Golden:
    """A request whose answer is known."""

    def __init__(self, at: At, tally: Tally) -> None:
        self.at, self.tally, self.known = at, tally, self._ask(at)

    def _ask(self, at: At) -> tuple[str, str]:
        said = at.complete(PROMPT, seed=1, max_tokens=8).choices[0].text
        return at.post("/translate", q=TEXT, **at.pair)["translatedText"], said

    def check(self, after: str) -> None:
        began = time.perf_counter()
        try:
            found: Any = self._ask(At(self.at.url))
        except Exception as error:
            found = repr(error)
        self.tally.golden.append(time.perf_counter() - began)
        if found != self.known or self.tally.golden[-1] > QUICK:
            self.tally.faults.append(f"golden after {after}: {found} in {self.tally.golden[-1]:.1f} s")


@contextmanager
def lag(port: int) -> Iterator[list[float]]:
    """Milliseconds of a request that takes no work, again and again meanwhile."""
    found, ended = [0.0], threading.Event()

    def watch() -> None:
        way = HTTPConnection("127.0.0.1", port, timeout=60)
        while not ended.is_set():
            began = time.perf_counter()
            way.request("GET", "/health")
            way.getresponse().read()
            found.append(1000 * (time.perf_counter() - began))
            ended.wait(0.005)
        way.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=1000, method="inclusive")[round(1000 * share) - 1]


def named(port: int, known: list[Case], tally: Tally) -> dict[str, float]:
    """Those that wait for a limit of time wait together; the others go one by one. Seconds of each."""

    def one(case: Case) -> tuple[str, float]:
        answer = ask(port, case.sent)
        tally.add(case.name, answer, case.statuses)
        return case.name, answer.seconds

    with ThreadPoolExecutor(sum(case.slow for case in known) or 1) as pool:
        slow = pool.map(one, [case for case in known if case.slow])
        return {**dict(one(case) for case in known if not case.slow), **dict(slow)}


def pipelined(port: int, count: int) -> int:
    """How many of as many requests in one packet are answered."""
    data = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as way:
        way.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * (count - 1))
        way.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while more := way.recv(1 << 16):
            data += more
    return data.count(b'{"status":"ok"}')


def described(url: str, *, examples: int, seed: int, phases: str = "coverage,fuzzing") -> tuple[list[Answer], str]:
    """Answers to what schemathesis makes of the description, and what it says if they are not as that has it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "schemathesis.toml").write_text(SETTINGS, "utf-8")
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", f"--checks={CHECKS}"]
        command += [f"--max-examples={examples}", f"--seed={seed}", f"--phases={phases}", "--mode=all", "--no-color"]
        command += ["--continue-on-failure", "--generation-database=none", f"--request-timeout={PATIENCE}"]
        command += ["--report=har", "--report-har-path=har.json", "--warnings=off", "--suppress-health-check=all"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        entries = json.loads(Path(folder, "har.json").read_text("utf-8"))["log"]["entries"]
    answers = [
        Answer(
            each["response"]["status"],
            head="\r\n".join(f"{one['name']}: {one['value']}" for one in each["response"]["headers"]).encode(),
        )
        for each in entries
    ]
    return answers, done.stdout + done.stderr if done.returncode else ""


def resident(service: Service) -> tuple[float, float]:
    """Megabytes of the service, and of its workers together."""

    def of(process: int) -> float:
        status = Path(f"/proc/{process}/status").read_text("utf-8")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    return of(service.process.pid), sum(map(of, service.workers()))


def warm(at: At) -> None:
    """Everything is there, those that look too."""
    at.post("/api/translate", text=TEXT, alignment=True)
    at.post("/api/attention", text=TEXT)
    at.complete(PROMPT, logprobs=1)


def fuzz(found: Service, count: int, seed: int) -> tuple[Tally, dict[str, str]]:
    at, tally, told = At(found.url), Tally(), dict[str, str]()
    warm(at)
    offer, port = Offer(at.pair, at.names["lm"]), found.port
    golden, known = Golden(at, tally), cases(offer)
    with lag(port) as rest:
        time.sleep(2)
    resident_at = [resident(found)]
    with lag(port) as meanwhile:
        seconds = named(port, [case for case in known if case.long], tally)
    told["GET /health at rest"] = f"p99 {percentile(rest, 0.99):.0f} ms, worst {max(rest):.0f} ms"
    told["GET /health during long texts"] = f"p99 {percentile(meanwhile, 0.99):.0f} ms, worst {max(meanwhile):.0f} ms"
    slowest = max(seconds, key=lambda name: seconds[name])
    told["long texts"] = f"{len(seconds)}, the slowest took {seconds[slowest]:.2f} s ({slowest})"
    golden.check("long texts")
    named(port, [case for case in known if not case.long], tally)
    golden.check("named requests")
    if (answered := pipelined(port, 100)) != 100:
        tally.faults.append(f"pipelining: {answered} of 100 answered")
    told["named"] = f"{len(known)}, and 100 pipelined"
    resident_at.append(resident(found))

    asked = 0
    for nth in range(1_000):
        phases = "fuzzing" if nth else "coverage,fuzzing"
        answers, wrong = described(found.url, examples=40, seed=seed + nth, phases=phases)
        for answer in answers:
            tally.add("schemathesis", answer)
        if wrong:
            tally.faults.append(f"schemathesis, seed {seed + nth}:\n{wrong}")
        asked += len(answers)
        golden.check(f"{asked} described requests")
        if asked >= (count - len(known)) / 2:
            break
    told["of the description"] = f"{asked:,}, by schemathesis"
    resident_at.append(resident(found))

    draw, base = random.Random(seed), valid(offer)
    left = max(0, count - len(known) - asked)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(0, left, BETWEEN):
            changed = [mutated(draw, base) for _ in range(min(BETWEEN, left - start))]
            answers = pool.map(lambda sent: ask(port, sent, patient=False), changed)
            for sent, answer in zip(changed, answers, strict=True):
                tally.add(f"changed {sent!r}"[:600], answer)
            golden.check(f"{start + len(changed)} changed requests")
    told["changed"] = f"{left:,}"

    resident_at.append(resident(found))
    for name, sizes in zip(("service", "workers"), zip(*resident_at, strict=True), strict=True):
        told[f"RSS of the {name}"] = " -> ".join(f"{size:.0f}" for size in sizes) + " MB, after each of these"
    state = at.get("/ready")
    if state["restarts"]:
        tally.faults.append(f"{state['restarts']} workers had to be replaced")
    return tally, told


def tell(tally: Tally, told: dict[str, str], seconds: float) -> str:
    odd = sum(status.startswith("5") * many for status, many in tally.statuses.items()) - tally.statuses["503"]
    rows = {"requests": f"{tally.statuses.total():,} in {seconds:.0f} s", **told}
    rows["statuses"] = ", ".join(f"{status}: {many:,}" for status, many in sorted(tally.statuses.items()))
    rows["5xx but 503"] = str(odd)
    rows["hangs"] = str(tally.statuses["hung"])
    rows["golden requests"] = f"{len(tally.golden)}, the slowest took {max(tally.golden):.2f} s"
    rows["faults"] = str(len(tally.faults))
    return "\n".join(f"{name:32}{value}" for name, value in rows.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("translator")
    parser.add_argument("language_model")
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    given, began = parser.parse_args(), time.perf_counter()
    with service(given.translator, given.language_model) as found:
        tally, told = fuzz(found, given.count, given.seed)
        said = [line for line in found.log if "Traceback" in line or "Error" in line or "replaced" in line]
    print(*tally.faults, *said, sep="\n")
    print(tell(tally, told, time.perf_counter() - began))
    sys.exit(bool(tally.faults))


if __name__ == "__main__":
    main()
