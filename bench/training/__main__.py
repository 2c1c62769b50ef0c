"""Training speed beside JoeyNMT, Hugging Face Marian and a plain `nn.Transformer`, by turns on the same batches.

    python -m bench.training [--shapes tiny,base,..] [--rounds 5] [--hurry 1]       (from `make bench`; 15 minutes)

Every contender is a process that is idle while others run; a round lets each do as many updates, in rotating order, and
a ratio is of two contenders in the same round. Target tokens are counted, padding is not. Two cores, nothing else
should run. Results go to runs/bench: training.json, training.md, training.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from bench.leave import leave, machine
from bench.training.ours import write_batches
from bench.training.report import Entry, Results, draw, tell
from bench.training.shapes import FOLDER, SHAPES, Shape

RIVALS_PYTHON = ".venv-bench/bin/python"
WARM_UP = 3  # updates; the first ones take their memory
NEAR = 0.75  # of the fastest rival when warm: so fast, a rival may be the best, and is tried with its memory kept too
PRODUCTS = 15  # of a round's measurement of the peak


@dataclass
class Runner:
    """The process, or processes, of one contender."""

    name: str
    contender: str
    shape: str
    processes: int = 1
    threads: int = 2
    keep_memory: bool = False
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> Runner:
        python = sys.executable if self.contender in ("Regard", "peak") else RIVALS_PYTHON
        command = [python, "-W", "ignore", "-m", "bench.training.worker", self.contender, self.shape, str(self.threads)]
        command += ["--keep-memory"] if self.keep_memory else []
        meeting = FOLDER / f"meeting-{time.time_ns()}"
        command += ["--processes", str(self.processes), "--meeting", str(meeting), "--rank"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "TRANSFORMERS_OFFLINE": "1"}
        with (FOLDER / "workers.log").open("a") as log:
            for rank in range(self.processes):
                process = subprocess.Popen(
                    [*command, str(rank)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=environment,
                )
                self.started.append(process)
        return self

    def end(self) -> None:
        for process in self.started:
            process.communicate()  # without more input, a worker ends

    def ask(self, line: str) -> list[dict[str, Any]]:
        for process in self.started:
            assert process.stdin is not None
            print(line, file=process.stdin, flush=True)
        return self.answers()

    def answers(self) -> list[dict[str, Any]]:
        lines = [process.stdout.readline() for process in self.started if process.stdout is not None]
        if not all(lines):
            sys.exit(f"{self.name}, {self.shape}: its process ended; {FOLDER / 'workers.log'} says why")
        return [json.loads(line) for line in lines]

    def go(self, updates: int) -> dict[str, Any]:
        """As long as the slowest process took."""
        parts = self.ask(f"go {updates}")
        losses = [sum(column) / len(parts) for column in zip(*(part["losses"] for part in parts), strict=True)]
        tokens = sum(part["tokens"] for part in parts)
        return {"seconds": max(part["seconds"] for part in parts), "tokens": tokens, "losses": losses}


def contenders(name: str, shape: Shape) -> list[Runner]:
    ours = [
        Runner("Regard, 2 processes", "Regard", name, processes=2, threads=1),
        Runner("Regard, 2 threads", "Regard", name),
    ]
    return [*ours, *(Runner(rival, rival, name) for rival in shape.rivals)]


def measure(name: str, rounds: int, hurry: float) -> Entry:
    shape = SHAPES[name]
    runners = contenders(name, shape)
    peaks = [Runner("2 threads", "peak", name), Runner("2 processes", "peak", name, processes=2, threads=1)]
    everyone = [runner.start() for runner in [*peaks, *runners]]
    parameters = {runner.name: runner.answers()[0]["parameters"] for runner in everyone}
    warm = {runner.name: [runner.go(1) for _ in range(WARM_UP)] for runner in runners}

    def speed(runner: Runner) -> float:
        return max(each["tokens"] / each["seconds"] for each in warm[runner.name][1:])

    rivals = [runner for runner in runners if runner.contender != "Regard"]
    enough = NEAR * max(map(speed, rivals))
    twins = [
        Runner(f"{rival.name}, mallopt", rival.contender, name, keep_memory=True).start()
        for rival in rivals
        if speed(rival) >= enough
    ]
    parameters |= {twin.name: twin.answers()[0]["parameters"] for twin in twins}
    warm |= {twin.name: [twin.go(1) for _ in range(WARM_UP)] for twin in twins}
    runners += twins
    each = sum(min(done["seconds"] for done in part) for part in warm.values())
    updates = max(1, round(shape.seconds / hurry / rounds / each))
    found: dict[str, list[dict[str, Any]]] = {runner.name: [] for runner in [*runners, *peaks]}
    for turn in range(rounds):
        print(f"{name}: round {turn + 1} of {rounds}, {updates} updates each", file=sys.stderr, flush=True)
        for peak in peaks:
            found[peak.name].append(peak.go(PRODUCTS))
        for i in range(len(runners)):
            runner = runners[(i + turn) % len(runners)]
            found[runner.name].append(runner.go(updates))
    flops = min(rival.ask("flops")[0]["flops"] for rival in rivals)
    for runner in [*peaks, *runners]:
        runner.end()
    return Entry(
        flops=flops,
        updates=updates,
        peaks={peak.name: found[peak.name] for peak in peaks},
        warm=warm,
        rounds={runner.name: found[runner.name] for runner in runners},
        parameters=parameters,
        twins=[twin.name for twin in twins],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES), help="parted by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hurry", type=float, default=1.0, help="so many times fewer updates")
    asked = parser.parse_args()
    began = time.monotonic()
    os.environ.setdefault("REGARD_DATA", "../shared/data")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "workers.log").unlink(missing_ok=True)
    names = [name.strip() for name in asked.shapes.split(",")]
    for name in names:
        write_batches(SHAPES[name])
    load = os.getloadavg()[0]
    entries = {name: measure(name, asked.rounds, asked.hurry) for name in names}
    results = Results(machine=machine(), load=load, entries=entries)
    leave(FOLDER / "training", results, tell, draw, time.monotonic() - began)


if __name__ == "__main__":
    main()
