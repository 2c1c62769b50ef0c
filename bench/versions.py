"""Speed of this tree against an older one: processor seconds for the same work, by turns.

    python -m bench.versions OLD_TREE MODEL SENTENCES [--rounds 15] [--cases train-tiny,native-greedy,..]

MODEL is a translator that both trees read, SENTENCES a file of its source language; training needs REGARD_DATA. Each
tree has a process of its own with one thread, idle while the other works. Printed for each case: the median of old/new
over the rounds (above 1: the new one is faster), and the interval of the median at 95 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = """
import json, os, sys, time
from pathlib import Path
import torch
import regard
from regard.decode.config import Beam, Greedy

torch.set_num_threads(1)
model, lines = sys.argv[1], Path(sys.argv[2]).read_text("utf-8").splitlines()
works = {}

def trained(shape):
    from bench.training.ours import regard as contender
    from bench.training.shapes import SHAPES
    Path("runs/bench").mkdir(parents=True, exist_ok=True)
    update = contender(SHAPES[shape], 0, 1, "").update
    steps = iter(range(10**9))
    return lambda: [update(next(steps)) for _ in range(8 if shape == "tiny" else 3)]

def decoded(engine, search, single=False):
    translator = regard.load(model, engine=engine, search=search, threads=1)
    count = {"native": 400, "torch": 120}[engine] // (1 if isinstance(search, Greedy) else 3) // (3 if single else 1)
    texts = lines[:count]
    if single:
        return lambda: [translator([text]) for text in texts]
    return lambda: translator(texts)

CASES = {
    "train-tiny": lambda: trained("tiny"),
    "train-base": lambda: trained("base"),
    "native-greedy": lambda: decoded("native", Greedy()),
    "native-beam5": lambda: decoded("native", Beam(size=5)),
    "native-single": lambda: decoded("native", Greedy(), single=True),
    "torch-greedy": lambda: decoded("torch", Greedy()),
    "torch-beam5": lambda: decoded("torch", Beam(size=5)),
    "torch-single": lambda: decoded("torch", Greedy(), single=True),
}
for line in sys.stdin:
    case = line.strip()
    if case not in works:
        works.clear()
        works[case] = CASES[case]()
        works[case]()  # warm
    began = time.process_time()
    works[case]()
    print(json.dumps(time.process_time() - began), flush=True)
"""
CASES = ("train-tiny", "train-base", "native-greedy", "native-beam5", "native-single",
         "torch-greedy", "torch-beam5", "torch-single")  # fmt: skip


class Tree:
    """The worker of one tree."""

    def __init__(self, root: Path, model: str, sentences: str) -> None:
        paths = os.pathsep.join(map(str, (root / "src", root)))
        variables = {"PYTHONPATH": paths, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORKER, model, sentences], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=self.folder.name, env={**os.environ, **variables},
        )  # fmt: skip

    def seconds(self, case: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(case, file=self.process.stdin, flush=True)
        return float(json.loads(self.process.stdout.readline()))


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of the median, at 95 % or more, by order statistics."""
    ordered, count = sorted(ratios), len(ratios)
    tail, rank = 0.0, 0
    while rank < count // 2 and tail + math.comb(count, rank) / 2**count <= 0.025:
        tail += math.comb(count, rank) / 2**count
        rank += 1
    rank = max(0, rank - 1)
    return ordered[rank], ordered[-1 - rank]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cases", default=",".join(CASES))
    given = parser.parse_args()
    if "REGARD_DATA" in os.environ:
        os.environ["REGARD_DATA"] = str(Path(os.environ["REGARD_DATA"]).resolve())
    places = str(given.model.resolve()), str(given.sentences.resolve())
    old, new = (Tree(root.resolve(), *places) for root in (given.old, Path(__file__).parents[1]))
    for case in given.cases.split(","):
        ratios = []
        for turn in range(given.rounds):
            pair = (old, new) if turn % 2 else (new, old)
            seconds = {tree: tree.seconds(case) for tree in pair}
            ratios.append(seconds[old] / seconds[new])
        low, high = interval(ratios)
        print(f"{case:14} {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})", flush=True)


if __name__ == "__main__":
    main()
