"""Kills a small run at random instants, again and again, and compares its end with that of a run left alone.

    python -m bench.resume [SITTINGS] [SETTING]      (default 25, all; a few minutes)

Each sitting starts `regard train` in one folder and stops it after a random time: by kill -9, every fifth time Ctrl-C
or SIGTERM. A third of the kills wait for a checkpoint that is just being written. Plain, then with accumulation and an
average of the weights, then that with two processes, of which either may be hit.
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

from tests.train.test_distributed import companions_of
from tests.train.test_resume import ends
from tests.train.toy import command, regard, write_recipe

from regard.files import MARK
from regard.rng import Key
from regard.train.checkpoint import steps_in

AVERAGED: dict[str, object] = {"accumulate": 2, "average": 0.9}
SETTINGS: dict[str, tuple[dict[str, object], int]] = {
    "plain": ({}, 1),
    "accumulate 2, average 0.9": (AVERAGED, 1),
    "two processes": (AVERAGED, 2),
}


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
    victims = [process.pid, *companions_of(process)]
    time.sleep(delay)
    while number % 3 == 0 and process.poll() is None and not any(folder.glob(f"{MARK}*")):
        pass
    with suppress(ProcessLookupError):
        os.kill(victims[number % len(victims)], how)
    process.communicate()
    saved = steps_in(folder)
    unfinished = ", inside a save" if any(folder.glob(f"{MARK}*")) else ""
    return f"{how.name:8} exit {process.returncode:4}, last saved {saved[-1].name if saved else 'nothing'}{unfinished}"


def main(sittings: int, only: str | None) -> None:
    for name, (settings, processes) in SETTINGS.items():
        if only not in (None, name):
            continue
        count = max(6, sittings // 4) if name.startswith("accumulate") else sittings
        with tempfile.TemporaryDirectory() as place:
            recipe, killed = (
                write_recipe(Path(place), steps=2000, checkpoints=400, evaluations=8, **settings),
                Path(place) / "killed",
            )
            process = begin(recipe, Path(place) / "whole", processes)
            began = time.monotonic()
            process.communicate()
            seconds = time.monotonic() - began
            draw = Key(7, ("resume", name)).generator()
            for i in range(count):
                how = {4: signal.SIGINT, 9: signal.SIGTERM}.get(i % 10, signal.SIGKILL)
                delay = seconds / count * float(draw.uniform(0.0, 1.4))
                print(name, i + 1, stop(begin(recipe, killed, processes), killed, delay, how, i), flush=True)
            regard("train", recipe, "--out", killed)
            same = ends(killed) == ends(Path(place) / "whole")
            print(
                f"{name}: after {count} stops the end is {'the same, bit for bit' if same else 'ANOTHER'}", flush=True
            )
            assert same


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25, sys.argv[2] if len(sys.argv) > 2 else None)
