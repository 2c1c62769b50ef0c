"""What an update takes, in time and memory, as vocabulary, width or length grow; and what decoding takes, as length,
batch or beam grow.

    python -m bench.scaling [update] [decoding]     (five minutes each, nothing else running; plots in runs/bench)

A tiny Transformer, one thread; each point in a process of its own, of which the peak of memory beyond what it had
before is told. An update has 2,048 target tokens, with dropout but none of attention weights; decoding is the native
engine's, in bytes, of sentences as long as their outputs. A slope is that of the logarithms over the last doubling: 1
is linear.
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
    "update": {
        "vocabulary": [2000, 4000, 8000, 16000, 32000],
        "width": [64, 128, 256, 512],
        "length": [8, 16, 32, 64, 128, 256, 512],
    },
    "decoding": {
        "length": [8, 16, 32, 64, 128, 256, 512],
        "batch": [1, 2, 4, 8, 16, 32, 64, 128],
        "beam": [1, 2, 4, 8, 16, 32],
    },
}
USUAL = {"update": {"vocabulary": 6000, "width": 128, "length": 16}, "decoding": {"length": 16, "batch": 32, "beam": 5}}
TITLES = {
    "update": "An update of a tiny Transformer: 2,048 target tokens, one thread",
    "decoding": "A sentence by a tiny Transformer: native engine, bytes, one thread",
}
TOKENS, SENTENCES, ROUNDS = 2048, 128, 5


def update(vocabulary: int, width: int, length: int) -> dict[str, float]:
    """Seconds of an update, and the megabytes it needs."""
    import torch

    from regard.attention.site import Site
    from regard.models.build import build
    from regard.models.presets import transformer_tiny
    from regard.nn.loss import cross_entropy
    from regard.rng import Key
    from regard.shapes import Padded
    from regard.tasks.config import TrainConfig
    from regard.training.distributed import ALONE
    from regard.training.optimizer import Optimizer
    from regard.training.run import keep_memory

    torch.set_num_threads(1)
    keep_memory()
    config = replace(transformer_tiny(), width=width, hidden=2 * width, tied="all", dropout=0.2)
    model = build(config.sized(vocabulary, vocabulary), 0)
    train = TrainConfig(steps=1)
    optimizer = Optimizer(model, train)
    rows = TOKENS // length
    tokens = torch.randint(4, vocabulary, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    source = Padded(tokens[:, 1:], torch.full((rows,), length))

    def once(step: int) -> float:
        began = time.perf_counter()
        model.zero_grad()
        site = Site(key=Key(0, (step,)))
        x, _ = model.advance(tokens[:, :-1], model.encode(source, site), site)
        cross_entropy(model.head, x.flatten(0, 1), tokens[:, 1:].flatten(), 0.1).backward()
        optimizer.move(1e-3, ALONE)
        return time.perf_counter() - began

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    once(0)
    seconds = median(once(step) for step in range(ROUNDS))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": seconds, "megabytes": grown / 1024}


def decoding(length: int, batch: int, beam: int) -> dict[str, float]:
    """Seconds of a sentence, and the megabytes that decoding needs."""
    from regard.decode.config import Beam, Greedy
    from regard.engine.native import NativeEngine
    from regard.engine.prepare import prepared_of
    from regard.models.build import build
    from regard.models.presets import transformer_tiny

    model = build(replace(transformer_tiny(), tied="all").sized(6000, 6000), 0)
    engine = NativeEngine(prepared_of(model, small=True), batch_size=batch)
    limits = {"max_length": length, "never": (model.end,)}
    search = Greedy(**limits) if beam == 1 else Beam(size=beam, **limits)
    sources = [
        [4 + (7 * i + 11 * n) % 5900 for i in range(length)] for n in range(max(batch, SENTENCES * 16 // length))
    ]

    def once(many: list[list[int]]) -> float:
        began = time.perf_counter()
        engine.decode(many, search)
        return time.perf_counter() - began

    engine.decode(sources[:1], Greedy(max_length=1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    once(sources)
    seconds = median(once(sources) for _ in range(ROUNDS)) / len(sources)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": seconds, "megabytes": grown / 1024}


MEASURES = {"update": update, "decoding": decoding}


def main(subjects: list[str]) -> None:
    folder = Path("runs/bench")
    folder.mkdir(parents=True, exist_ok=True)
    for subject in subjects:
        found: dict[str, list[dict[str, float]]] = {}
        for axis, values in AXES[subject].items():
            found[axis] = []
            for value in values:
                point = json.dumps(USUAL[subject] | {axis: value})
                command = [sys.executable, "-m", "bench.scaling", "--point", subject, point]
                said = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                found[axis].append({axis: value, **json.loads(said.stdout)})
                print(" ".join(f"{name} {number:,.4g}" for name, number in found[axis][-1].items()), flush=True)
            for what in ("seconds", "megabytes"):
                (a, x), (b, y) = ((row[axis], row[what]) for row in found[axis][-2:])
                slope = math.log(y / x) / math.log(b / a) if x and y else 0.0
                print(f"  {what}: slope {slope:.2f} from {a:,} to {b:,}")
        (folder / f"scaling-{subject}.json").write_text(json.dumps(found, indent=1))
        draw(subject, found, folder / f"scaling-{subject}.svg")


def draw(subject: str, found: dict[str, list[dict[str, float]]], path: Path) -> None:
    from matplotlib import pyplot

    of = "an update" if subject == "update" else "a sentence"
    labels = {"seconds": f"seconds of {of}", "megabytes": "megabytes"}
    figure, panels = pyplot.subplots(2, len(found), figsize=(11, 6), sharex="col", sharey="row", layout="constrained")
    for column, (axis, rows) in enumerate(found.items()):
        for panel, what in zip(panels[:, column], labels, strict=True):
            panel.loglog([row[axis] for row in rows], [row[what] for row in rows], "o-", base=2)
            panel.set(xlabel=axis if what == "megabytes" else "", ylabel=labels[what] if column == 0 else "")
            panel.set_xticks([row[axis] for row in rows], [f"{row[axis]:,}" for row in rows])
            panel.yaxis.set_major_formatter("{x:,g}")
            panel.grid(alpha=0.3)
    figure.suptitle(TITLES[subject])
    figure.savefig(path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        print(json.dumps(MEASURES[sys.argv[2]](**json.loads(sys.argv[3]))))
    else:
        main(sys.argv[1:] or list(AXES))
