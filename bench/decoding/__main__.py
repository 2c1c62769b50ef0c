"""Decoding speed beside CTranslate2 and Hugging Face's generate, by turns on the same sentences and weights.

    python -m bench.decoding [--model FOLDER] [--rounds 5] [--hurry 1]       (from `make bench`; 20 minutes)

The tiny model is trained on Multi30k, the base one is the same function in the paper's base shape. Every contender is a
process that is idle while others run, text in and text out; a round lets each translate as long, in rotating order, and
a ratio is of two contenders in the same round. Two cores, nothing else should run. Results go to runs/bench:
decoding.json, decoding.md, decoding.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.decoding.models import FOLDER, SOURCE, TARGET, make
from bench.decoding.report import Case, Results, draw, tell
from bench.decoding.worker import CONTENDERS
from bench.leave import leave, machine

SECONDS = {"tiny": 1.6, "base": 2.4}  # of a contender's turn
JUDGED = 100  # sentences whose quality is told, of the base shape, which is the same function
LEAST, WARM = 24, 48  # sentences of a turn, and of the first


class Runner:
    def __init__(self, name: str, shape: str) -> None:
        self.name = name
        command = [sys.executable, "-W", "ignore", "-m", "bench.decoding.worker", name, shape]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
        with (FOLDER / "decoders.log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        self._answer()

    def go(self, texts: list[str], beam: int, single: bool) -> dict[str, Any]:
        print(json.dumps({"texts": texts, "beam": beam, "single": single}), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: its process ended; {FOLDER / 'decoders.log'} says why")
        found: dict[str, Any] = json.loads(line)
        return found


def spread(items: list[str], count: int) -> list[str]:
    """So many, evenly from all."""
    return [items[i * len(items) // count] for i in range(count)]


def measure(shape: str, rounds: int, hurry: float, sources: list[str], references: list[str]) -> list[Case]:
    runners = [Runner(name, shape) for name in CONTENDERS]
    judged = len(sources) if shape == "tiny" else JUDGED
    cases = []
    for single in (False, True):
        for beam in (1, 5):
            counts, quality = {}, {}
            for runner in runners:
                warm = runner.go(spread(sources, WARM), beam, single)
                wanted = SECONDS[shape] / hurry / sum(warm["seconds"]) * WARM
                counts[runner.name] = int(min(len(sources), max(LEAST, wanted)))
                if not single:
                    outputs = runner.go(spread(sources, judged), beam, False)["outputs"]
                    quality[runner.name] = (spread(references, judged), outputs)
            found: dict[str, list[list[float]]] = {runner.name: [] for runner in runners}
            for turn in range(rounds):
                print(
                    f"{shape}, beam {beam}, {'single' if single else 'batch'}: round {turn + 1}",
                    file=sys.stderr,
                    flush=True,
                )
                for i in range(len(runners)):
                    runner = runners[(i + turn) % len(runners)]
                    done = runner.go(spread(sources, counts[runner.name]), beam, single)
                    found[runner.name].append(done["seconds"])
            cases.append(Case(shape=shape, beam=beam, single=single, counts=counts, seconds=found, quality=quality))
    for runner in runners:
        runner.process.communicate()
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="trained, of the tiny shape; by default one is trained")
    parser.add_argument("--shapes", default="tiny,base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hurry", type=float, default=1.0, help="so many times shorter turns")
    asked = parser.parse_args()
    os.environ.setdefault("REGARD_DATA", "../shared/data")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "decoders.log").unlink(missing_ok=True)
    (FOLDER / "tiny.path").write_text(str(make(asked.model)))
    began, load = time.monotonic(), os.getloadavg()[0]
    sources, references = (
        (Path(os.environ["REGARD_DATA"]) / name).read_text("utf-8").splitlines() for name in (SOURCE, TARGET)
    )
    cases = [
        case
        for shape in asked.shapes.split(",")
        for case in measure(shape, asked.rounds, asked.hurry, sources, references)
    ]
    results = Results(machine=machine(), load=load, cases=cases)
    leave(FOLDER / "decoding", results, tell, draw, time.monotonic() - began)


if __name__ == "__main__":
    main()
