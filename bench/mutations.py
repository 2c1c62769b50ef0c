"""Faults that the tests must find: each is put into a copy of the tree, and the tests are run that should fail.

    python -m bench.mutations [TREE [PYTHON]]     (some minutes; TREE, this one by default, is copied and never changed)

Exits with 1 if a fault is not found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """What is written instead of what, in a file of src/regard, and the tests that notice."""

    file: str
    old: str
    new: str
    tests: str


FAULTS = {
    "fsync before rename": Fault("files.py", "        os.fsync(file.fileno())", "        pass", "tests/test_files.py"),
    "mask polarity": Fault("attention/kernels.py", ".masked_fill(~allowed, -torch.inf)",
                           ".masked_fill(allowed, -torch.inf)", "tests/contracts/test_kernels.py"),
    "beam bound": Fault("decode/beam.py", "search.best_normaliser(length, limits.double())",
                        "search.normaliser(length)", "tests/contracts/test_search.py"),
    "resume counter": Fault("training/loop.py", "self.weights.restore(checkpoint, self.world)",
                            "self.weights.restore(checkpoint, self.world).after(0, 0.0, 0.0)",
                            "tests/training/test_resume.py tests/training/test_damage.py"),
    "dropout scale": Fault("attention/site.py", "stays, scale = dropped(key, rate, x.numel())",
                           "stays, scale = dropped(key, rate, x.numel())[0], 1.0", "tests/attention/test_site.py"),
    "label smoothing": Fault("nn/loss.py", "nats += smoothing *", "nats -= smoothing *", "tests/nn/test_loss.py"),
    "length penalty": Fault("decode/config.py", "** self.length_penalty)", "** -self.length_penalty)",
                            "tests/contracts/test_search.py"),
    "manifest check": Fault("files.py", 'if digest(folder / name) != wanted["sha256"]:', "if False:",
                            "tests/test_files.py"),
    "key comparison": Fault("serve/wire.py", "hmac.compare_digest(key.encode(), one.encode())",
                            "key.startswith(one)", "tests/serve/test_abuse.py tests/serve/test_server.py"),
    "padding length": Fault("attention/mask.py", "grid.keys() < self.lengths",
                            "grid.keys() <= self.lengths", "tests/attention/test_mask.py"),
}  # fmt: skip


def found(tree: Path, python: str, fault: Fault) -> str:
    """The first test that fails, or nothing."""
    path = tree / "src" / "regard" / fault.file
    whole = path.read_text("utf-8")
    assert fault.old in whole, f"{fault.file} has no {fault.old!r}"
    path.write_text(whole.replace(fault.old, fault.new), "utf-8")
    command = [python, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *fault.tests.split()]
    env = {**os.environ, "PYTHONPATH": f"{tree}/src"}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
    path.write_text(whole, "utf-8")
    return next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")


def main(source: Path, python: str) -> int:
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        parts = ("src", "tests", "bench", "docs", "recipes", "tools", "pyproject.toml", "README.md", "CONTRIBUTING.md")
        tree.mkdir()
        for part in parts:
            if (source / part).is_dir():
                shutil.copytree(source / part, tree / part)
            elif (source / part).exists():
                shutil.copy(source / part, tree)
        (tree.parent / "shared").symlink_to(source.resolve().parent / "shared")
        for name, fault in FAULTS.items():
            began = time.monotonic()
            line = found(tree, python, fault)
            missed += not line
            print(f"{name:20} {line.partition(' - ')[0] or 'NOT FOUND'} ({time.monotonic() - began:.0f} s)", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(
        main(Path(given[0]) if given else Path(__file__).parents[1], given[1] if len(given) > 1 else sys.executable)
    )
