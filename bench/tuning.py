"""What tuning takes, all weights against some: memory and time of an update of MiniLM on STS-B.

    REGARD_DATA=... python -m bench.tuning [--rounds 3] [--threads 2]

Each way runs in a process of its own, which tells its largest memory; rounds of all ways are interleaved, and the
median of an update's time is shown. Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "recipes" / "glue" / "stsb.yaml"
WAYS = {
    "all weights": [],
    "LoRA, rank 8": ["train.lora_rank=8"],
    "frozen: 4 of 6 layers": ["train.frozen_layers=4"],
    "frozen: words and all layers": ["train.frozen_layers=6"],
}
UPDATES = 12


def one(way: str, threads: int) -> dict[str, float]:
    """In this process: seconds of an update, and memory."""
    import torch

    from regard.exchange import folders
    from regard.tasks.registry import read_recipe
    from regard.training.run import Run

    torch.set_num_threads(threads)
    recipe = read_recipe(RECIPE, WAYS[way])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        run = Run(recipe, out, folders)
        run.save_tokenizers()
        trainer = run.trainer()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for step in range(5):
            trainer.update(trainer.weights, step)
        began = time.perf_counter()
        for step in range(UPDATES):
            trainer.update(trainer.weights, step)
        spent = (time.perf_counter() - began) / UPDATES
        moving = sum(p.numel() for p in trainer.weights.model.parameters() if p.requires_grad)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": spent, "peak": peak, "before": before, "moving": float(moving)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--way", choices=WAYS)
    given = options.parse_args()
    if given.way:
        print(json.dumps(one(given.way, given.threads)))
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for number in range(given.rounds):
        for way in WAYS:
            print(f"round {number + 1}: {way}", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "bench.tuning", "--way", way, "--threads", str(given.threads)]
            found[way].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    print("| what moves | weights that move | ms an update | largest memory, MB | of it for training |")
    print("|---|---|---|---|---|")
    for way, rounds in found.items():
        ms, peak, before = (statistics.median(r[k] for r in rounds) for k in ("seconds", "peak", "before"))
        print(f"| {way} | {rounds[0]['moving']:,.0f} | {1000 * ms:.0f} | {peak:.0f} | {peak - before:.0f} |")


if __name__ == "__main__":
    main()
