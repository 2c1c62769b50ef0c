"""Trains on a made-up corpus of 2 GB and watches how much memory of its own the program takes.

    python -m bench.memory [GIGABYTES] [STEPS]

Prints the peak of anonymous memory (RssAnon, what is not a file's pages) in each stage, and of all memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.training.toy import command

from regard.rng import Key


def write_text(path: Path, blocks: int, name: str) -> None:
    """Sentences of 4 to 27 made-up words, of which a few are frequent: 100,000 of them, over and over."""
    draw, lengths = Key(0, (name,)).generator(), Key(0, ("lengths",)).generator()  # lengths are those of the other side
    letters = list("abcdefghijklmnopqrstuvwxyzäöüß")
    words = ["".join(draw.choice(letters, int(draw.integers(2, 10)))) for _ in range(30_000)]
    block = []
    for length in lengths.integers(4, 28, 100_000).tolist():
        block.append(" ".join(words[rank] for rank in (30_000 ** draw.random(length)).astype(int) - 1) + "\n")
    data = "".join(block).encode()
    with path.open("wb") as file:
        for _ in range(blocks):
            file.write(data)


def memory(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {k: int(v.split()[0]) for k, v in (line.split(":", 1) for line in lines) if k in ("RssAnon", "VmRSS")}


def main(gigabytes: float, steps: int) -> None:
    with tempfile.TemporaryDirectory(dir="runs") as place:
        folder = Path(place)
        for side in ("source", "target"):
            write_text(folder / side, round(gigabytes * 50), side)  # a block is about 10 MB
        size = sum((folder / side).stat().st_size for side in ("source", "target"))
        print(f"corpus: {size / 1e9:.2f} GB", flush=True)
        recipe = {
            "data": {"train": [{side: str(folder / side) for side in ("source", "target")}]},
            "train": {"steps": steps, "evaluations": 1, "checkpoints": 1},
        }
        (folder / "recipe.yaml").write_text(json.dumps(recipe), "utf-8")
        began, stage, peaks = time.monotonic(), "start", {}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command("train", folder / "recipe.yaml", "--out", folder / "run"), stderr=log)
            while process.poll() is None:
                run = folder / "run"
                made = [name for name in ("tokenizer.json", "store", "plan.json") if (run / name).exists()]
                stage = ["tokenizer", "store", "plan", "train"][len(made)]
                for name, value in memory(process.pid).items():
                    peaks[stage, name] = max(value, peaks.get((stage, name), 0))
                time.sleep(0.2)
        print((folder / "log").read_text("utf-8"))
        for (stage, name), value in peaks.items():
            print(f"{stage:10} {name:8} {value / 1e6:6.2f} GB")
        print(f"{time.monotonic() - began:.0f} s, exit {process.returncode}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0, int(sys.argv[2]) if len(sys.argv) > 2 else 50)
