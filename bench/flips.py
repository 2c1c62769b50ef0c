"""Flips one bit in every file of a stopped run, again and again; each has to be noticed, or to change nothing.

    python -m bench.flips [COUNT]      (default 200; about five minutes)

A run with held-out pairs, two tokenizers and a mean of checkpoints is stopped by SIGTERM between two planned saves.
Each time a copy of its folder gets one flipped bit; the same command goes on, and the model translates. The outcome:
noticed (exit code 2, or a message that names the file), harmless (the same bits and outputs), SILENT, or a TRACEBACK.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import torch
from tests.cli.reading import regard
from tests.training.test_damage import flip, holding_out
from tests.training.test_resume import ends

from regard.errors import UserError
from regard.rng import Key
from regard.training.loop import Trainer

TEXTS = b"rot blau\ngelb\ngrau grau rosa\n"
STOP = 33


def stopped_run(recipe: Path, out: Path) -> None:
    """A run of 40 steps that SIGTERM stops at step 33."""
    if os.fork() == 0:
        update = Trainer.update

        def updated(self: Trainer, weights: object, step: int, plan: object = None, asked: object = ()) -> object:
            if plan is not None and step + 1 == STOP:
                os.kill(os.getpid(), 15)
            return update(self, weights, step, plan, asked)  # type: ignore[arg-type]

        Trainer.update = updated  # type: ignore[assignment, method-assign]
        with contextlib.suppress(BaseException):
            regard("train", recipe, "--out", out)
        os._exit(0)
    os.wait()


def outcome(recipe: Path, out: Path, damaged: str, whole: object, said: str) -> str:
    """What became of a damaged run, found by a process of its own, which may abort."""
    read, write = os.pipe()
    if os.fork() == 0:
        verdict = "TRACEBACK"
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                _, messages = regard("train", recipe, "--out", out)
                output, _ = regard("run", out, stdin=TEXTS)
            same = ends(out) == whole and output == said
            verdict = "harmless" if same else "noticed" if Path(damaged).name in messages else "SILENT"
            if same and "passed over" in messages:
                verdict = "noticed"
        except UserError:
            verdict = "noticed"
        except BaseException:
            verdict = f"TRACEBACK {traceback.format_exc()[-300:]}"
        os.write(write, verdict.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode() or "ABORT"
    os.wait()
    return text


def main(count: int) -> None:
    torch.set_num_threads(1)
    draw, totals = Key(3, ("flips",)).generator(), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as place:
        recipe, run = holding_out(Path(place), average=3, evaluations=4), Path(place) / "run"
        stopped_run(recipe, run)
        shutil.copytree(run, Path(place) / "whole")
        regard("train", recipe, "--out", Path(place) / "whole")
        whole, (said, _) = ends(Path(place) / "whole"), regard("run", Path(place) / "whole", stdin=TEXTS)
        names = [str(p.relative_to(run)) for p in sorted(run.rglob("*")) if p.is_file() and p.stat().st_size]
        for i in range(count):
            name = names[i % len(names)]
            copy = Path(place) / "copy"
            shutil.copytree(run, copy)
            at, bit = int(draw.integers((copy / name).stat().st_size)), int(draw.integers(8))
            flip(copy / name, at, bit)
            verdict = outcome(recipe, copy, name, whole, said)
            totals[name.split("/")[0], verdict.split()[0]] += 1
            if verdict not in ("noticed", "harmless"):
                print(f"{name}, byte {at}, bit {bit}: {verdict}", flush=True)
            shutil.rmtree(copy)
    for (name, verdict), number in sorted(totals.items()):
        print(f"{name:25} {verdict:10} {number}")
    print({verdict: sum(n for (_, v), n in totals.items() if v == verdict) for _, verdict in totals})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
