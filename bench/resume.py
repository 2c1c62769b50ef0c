"""Kills a small run at random instants, again and again, and compares its end with that of a run left alone.

    python -m bench.resume [SITTINGS] [SETTING]      (default 20, all five; about 15 minutes)

Each sitting starts `regard train` in one folder and stops it after a random time: by kill -9, SIGTERM, Ctrl-C, or
SIGSTOP, a pause and SIGCONT before kill -9. A third of the stops wait for a checkpoint that is just being written.
Where there are two processes, either is hit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.forked import children
from tests.training.test_resume import ends
from tests.training.toy import command, regard, write_recipe

from regard.files import MARK
from regard.rng import Key
from regard.training.checkpoint import steps_in

SETTINGS: dict[str, tuple[dict[str, object], int]] = {
    "plain": ({}, 1),
    "accumulate 2, exponential average": ({"accumulate": 2, "average": 0.9}, 1),
    "mean of 4 checkpoints": ({"average": 4}, 1),
    "two processes, accumulate 2, exponential average": ({"accumulate": 2, "average": 0.9}, 2),
    "two processes, accumulate 2, mean of 4 checkpoints": ({"accumulate": 2, "average": 4}, 2),
}
KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
PAUSE = 1.0  # seconds between SIGSTOP and SIGCONT


def begin(recipe: Path, out: Path, processes: int) -> subprocess.Popen[bytes]:
    """A run that has come to train."""
    arguments = ("train", recipe, "--out", out, "--processes", processes)
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"parameters" not in process.stderr.readline():
        assert process.poll() is None
    return process


def stop(process: subprocess.Popen[bytes], out: Path, delay: float, how: signal.Signals, number: int) -> str:
    """Every third time inside a save; where there is a companion, that one every second time."""
    folder = out / "checkpoints"
    victims = [process.pid, *children(process.pid)]
    time.sleep(delay)
    while number % 3 == 0 and process.poll() is None and not any(folder.glob(f"{MARK}*")):
        pass
    with suppress(ProcessLookupError):
        os.kill(victims[number % len(victims)], how)
        if how == signal.SIGSTOP:
            time.sleep(PAUSE)
            os.kill(victims[number % len(victims)], signal.SIGCONT)
            time.sleep(PAUSE / 2)
            process.kill()
    process.communicate()
    saved = steps_in(folder)
    unfinished = ", inside a save" if any(folder.glob(f"{MARK}*")) else ""
    return f"{how.name:8} exit {process.returncode:4}, last saved {saved[-1].name if saved else 'nothing'}{unfinished}"


def main(sittings: int, only: str | None) -> None:
    for name, (settings, processes) in SETTINGS.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as place:
            recipe, killed = (
                write_recipe(Path(place), steps=1000, checkpoints=200, evaluations=8, **settings),
                Path(place) / "killed",
            )
            process = begin(recipe, Path(place) / "whole", processes)
            began = time.monotonic()
            process.communicate()
            seconds = time.monotonic() - began
            draw = Key(7, ("resume", name)).generator()
            for i in range(sittings):
                how = KINDS[int(draw.integers(len(KINDS)))]
                delay = seconds / sittings * float(draw.uniform(0.0, 1.4))
                print(name, i + 1, stop(begin(recipe, killed, processes), killed, delay, how, i), flush=True)
            regard("train", recipe, "--out", killed)
            same = ends(killed) == ends(Path(place) / "whole")
            end = "the same, bit for bit" if same else "ANOTHER"
            print(f"{name}: after {sittings} stops the end is {end}", flush=True)
            assert same


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else None)
