"""Kills a small run at random instants, again and again, and compares its end with that of a run left alone.

    python -m bench.resume [SITTINGS]      (default 25; a few minutes)

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


def begin(recipe: Path, out: Path) -> subprocess.Popen[bytes]:
    """A run that has come to train."""
    process = subprocess.Popen(command("train", recipe, "--out", out), stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"parameters" not in process.stderr.readline():
        assert process.poll() is None
    return process


def stop(process: subprocess.Popen[bytes], out: Path, delay: float, how: signal.Signals, inside_a_save: bool) -> str:
    folder = out / "checkpoints"
    time.sleep(delay)
    while inside_a_save and process.poll() is None and not any(folder.glob(f"{MARK}*")):
        pass
    process.send_signal(how)
    process.communicate()
    saved = steps_in(folder)
    unfinished = ", inside a save" if any(folder.glob(f"{MARK}*")) else ""
    return f"{how.name:8} exit {process.returncode:4}, last saved {saved[-1].name if saved else 'nothing'}{unfinished}"


def main(sittings: int) -> None:
    for name, settings in SETTINGS.items():
        count = sittings if not settings else max(6, sittings // 4)
        with tempfile.TemporaryDirectory() as place:
            recipe, killed = (
                write_recipe(Path(place), steps=2000, checkpoints=400, evaluations=8, **settings),
                Path(place) / "killed",
            )
            process = begin(recipe, Path(place) / "whole")
            began = time.monotonic()
            process.communicate()
            seconds = time.monotonic() - began
            draw = Key(7, ("resume", name)).generator()
            for i in range(count):
                how = {4: signal.SIGINT, 9: signal.SIGTERM}.get(i % 10, signal.SIGKILL)
                delay = seconds / count * float(draw.uniform(0.0, 1.4))
                print(name, i + 1, stop(begin(recipe, killed), killed, delay, how, i % 3 == 0), flush=True)
            regard("train", recipe, "--out", killed)
            same = ends(killed) == ends(Path(place) / "whole")
            print(
                f"{name}: after {count} stops the end is {'the same, bit for bit' if same else 'ANOTHER'}", flush=True
            )
            assert same


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
