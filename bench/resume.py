"""Kills a small run at random instants, again and again, and compares its end with that of a run left alone.

    python -m bench.resume [SITTINGS]      (default 20; a few minutes)

Each sitting starts `regard train` in one folder and stops it after a random time: by kill -9, every fifth time Ctrl-C
or SIGTERM. A third of the kills wait for a checkpoint that is just being written. Plain, then with accumulation and an
average of the weights.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.train.test_resume import ends
from tests.train.toy import command, regard, write_recipe

from regard.files import MARK
from regard.rng import Key
from regard.train.checkpoint import steps_in

SETTINGS: dict[str, dict[str, object]] = {"plain": {}, "accumulate 2, average 0.9": {"accumulate": 2, "average": 0.9}}


def kill_once(recipe: Path, out: Path, draw: float, how: signal.Signals, inside_a_save: bool) -> str:
    before = len(steps_in(out / "checkpoints"))
    process = subprocess.Popen(command("train", recipe, "--out", out), stderr=subprocess.DEVNULL)
    folder = out / "checkpoints"
    while process.poll() is None and not folder.exists():
        time.sleep(0.001)
    limit = time.monotonic() + 3 * draw
    seen = False
    while process.poll() is None and time.monotonic() < limit and not seen:
        seen = inside_a_save and any(folder.glob(f"{MARK}*"))
    process.send_signal(how)
    code = process.wait()
    steps = steps_in(folder)
    last = steps[-1].name if steps else "nothing"
    unfinished = any(folder.glob(f"{MARK}*"))
    return f"{how.name:8} exit {code:4}  saved {last}{', inside a save' if unfinished else ''} ({before} before)"


def main(sittings: int) -> None:
    for name, settings in SETTINGS.items():
        count = sittings if not settings else max(5, sittings // 4)
        with tempfile.TemporaryDirectory() as place:
            recipe = write_recipe(Path(place), steps=2000, checkpoints=400, evaluations=8, **settings)
            regard("train", recipe, "--out", Path(place) / "whole")
            draw = Key(7, ("resume", name)).generator()
            for i in range(count):
                how = {4: signal.SIGINT, 9: signal.SIGTERM}.get(i % 10, signal.SIGKILL)
                print(name, i + 1, kill_once(recipe, Path(place) / "killed", float(draw.random()), how, i % 3 == 0))
            regard("train", recipe, "--out", Path(place) / "killed")
            same = ends(Path(place) / "killed") == ends(Path(place) / "whole")
            print(f"{name}: after {count} stops the end is {'the same, bit for bit' if same else 'ANOTHER'}")
            assert same


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
