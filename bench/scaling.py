"""What an update takes, in time and memory, as vocabulary, width or length grow.

    python -m bench.scaling      (about five minutes, nothing else running; table and plot in runs/bench)

A tiny Transformer, 2,048 target tokens an update, with dropout but none of attention weights, one thread; each point
in a process of its own, of which the peak of memory beyond what it had before is told. A slope is that of the
logarithms over the last doubling: 1 is linear.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

AXES = {
    "vocabulary": [2000, 4000, 8000, 16000, 32000],
    "width": [64, 128, 256, 512],
    "length": [8, 16, 32, 64, 128, 256, 512],
}
USUAL = {"vocabulary": 6000, "width": 128, "length": 16}
TOKENS, ROUNDS = 2048, 5


def measure(vocabulary: int, width: int, length: int) -> dict[str, float]:
    """Seconds of an update, and the megabytes it needs."""
    import torch

    from regard.attention.site import Site
    from regard.cli.train import keep_memory
    from regard.models.build import build
    from regard.models.config import transformer_tiny
    from regard.nn.loss import cross_entropy
    from regard.rng import Key
    from regard.shapes import Padded
    from regard.train.config import TrainConfig
    from regard.train.distributed import ALONE
    from regard.train.optimizer import Optimizer

    torch.set_num_threads(1)
    keep_memory()
    config = replace(transformer_tiny(), width=width, hidden=2 * width, tied="all", dropout=0.2)
    model = build(config.sized(vocabulary, vocabulary), 0)
    train = TrainConfig(steps=1)
    optimizer = Optimizer(model, train)
    rows = TOKENS // length
    tokens = torch.randint(4, vocabulary, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    source = Padded(tokens[:, 1:], torch.full((rows,), length))

    def update(step: int) -> float:
        began = time.perf_counter()
        model.zero_grad()
        site = Site(key=Key(0, (step,)))
        x, _ = model.advance(tokens[:, :-1], model.encode(source, site), site)
        cross_entropy(model.head, x.flatten(0, 1), tokens[:, 1:].flatten(), 0.1).backward()
        optimizer.move(1e-3, ALONE)
        return time.perf_counter() - began

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    update(0)
    seconds = median(update(step) for step in range(ROUNDS))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": seconds, "megabytes": grown / 1024}


def main() -> None:
    folder = Path("runs/bench")
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {}
    for axis, values in AXES.items():
        found[axis] = []
        for value in values:
            point = USUAL | {axis: value}
            said = subprocess.run(
                [sys.executable, "-m", "bench.scaling", json.dumps(point)], capture_output=True, check=True
            )
            found[axis].append({axis: value, **json.loads(said.stdout)})
            print(" ".join(f"{name} {number:,.4g}" for name, number in found[axis][-1].items()), flush=True)
        for what in ("seconds", "megabytes"):
            (a, x), (b, y) = ((row[axis], row[what]) for row in found[axis][-2:])
            print(f"  {what}: slope {math.log(y / x) / math.log(b / a):.2f} from {a:,} to {b:,}")
    (folder / "scaling.json").write_text(json.dumps(found, indent=1))
    draw(found, folder / "scaling.svg")


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(found), figsize=(11, 6), sharex="col", sharey="row", layout="constrained")
    for column, (axis, rows) in enumerate(found.items()):
        for panel, what in zip(panels[:, column], ("seconds", "megabytes"), strict=True):
            panel.loglog([row[axis] for row in rows], [row[what] for row in rows], "o-", base=2)
            panel.set(xlabel=axis if what == "megabytes" else "", ylabel=f"{what} of an update" if column == 0 else "")
            panel.set_xticks([row[axis] for row in rows], [f"{row[axis]:,}" for row in rows])
            panel.yaxis.set_major_formatter("{x:,g}")
            panel.grid(alpha=0.3)
    figure.suptitle("An update of a tiny Transformer: 2,048 target tokens, one thread")
    figure.savefig(path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
    else:
        main()
