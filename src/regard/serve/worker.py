"""The process that holds a model and decodes, one job after another.

    python -m regard.serve.worker       (started by the service; messages on standard input and output)

A message is a line of JSON. A job is one with a number; parts of an answer and the answer carry that number. The worker
ends with its input.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from copy import copy
from typing import Any, BinaryIO

from regard import load
from regard.errors import UserError
from regard.serve.jobs import JOBS, alone_of, described

BEAT = 0.5  # seconds
MANY = 64  # more jobs than can be in work at once


class Worker:
    def __init__(self, given: BinaryIO, taken: BinaryIO) -> None:
        self.given, self.taken = given, taken
        self.jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.dropped: set[int] = set()
        self.lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            self.taken.write(json.dumps(message).encode() + b"\n")
            self.taken.flush()

    def receive(self) -> Any:
        """The next message, or None at the end."""
        line = self.given.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def run(self) -> None:
        settings = self.receive()
        if settings is None:
            return
        try:
            self.model = load(settings["folder"], engine=settings["engine"], threads=settings["threads"])
            about = described(self.model)
        except UserError as error:
            self.send({"refused": str(error)})
        except ModuleNotFoundError as error:
            self.send({"refused": f"{settings['folder']}: this needs {error.name}: pip install 'regard[train]'"})
        else:
            self.send({"ready": about})
            self.start(about["lanes"])

    def start(self, lanes: int) -> None:
        """Work until the service is gone."""
        for act in (self._beat, *[self._work] * lanes):
            threading.Thread(target=act, daemon=True).start()
        while (message := self.receive()) is not None:
            if "drop" in message:
                self.dropped.add(message["drop"])
            else:
                self.jobs.put(message)
        os._exit(0)

    def _beat(self) -> None:
        while True:
            self.send({"alive": True})
            time.sleep(BEAT)

    def _work(self) -> None:
        """One of the lanes, with models of its own, as a job changes how they search."""
        try:
            whole, alone = copy(self.model), alone_of(self.model)
            while True:
                job = self.jobs.get()
                self._do(job, alone if job["alone"] else whole)
        except BaseException:  # the worker is replaced then
            traceback.print_exc()
            os._exit(1)

    def _do(self, job: dict[str, Any], model: Any) -> None:
        number, last = job["number"], 0.0

        def tick(*_: Any) -> None:
            nonlocal last
            if number in self.dropped:
                raise UserError("nobody waits for this any more")
            if time.monotonic() > last + BEAT:
                last = time.monotonic()
                self.send({"number": number, "progress": True})

        def part(piece: dict[str, Any]) -> None:
            tick()
            self.send({"number": number, "part": piece})

        try:
            tick()
            answer = {"answer": JOBS[job["do"]](model, job, tick, part)}
        except UserError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "there is not enough memory for this"}
        self.dropped = {each for each in self.dropped if each > number - MANY}
        self.send({"number": number, **answer})


def main() -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the service says when to end
    taken = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no message
    Worker(sys.stdin.buffer, taken).run()


if __name__ == "__main__":
    main()
