"""Shows what `regard train` says to bad data, places and recipes, and that `regard run` keeps every line of junk.

python -m bench.junk      (a minute; as root also a full and a read-only file system)
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.training.toy import command, regard, write_corpus, write_recipe

MARK = b"\xef\xbb\xbf"


def tell(name: str, *arguments: object) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, check=False)
    said = done.stderr.decode().strip().splitlines()
    told = said if done.returncode else said[-1:]
    print(f"{name} (exit {done.returncode}):\n    " + "\n    ".join(told), flush=True)
    assert "Traceback" not in done.stderr.decode()


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def train(folder: Path) -> None:
    good = (folder / "train.tgt").read_bytes()
    sides = ["--source", folder / "train.src", "--target"]
    bad = {
        "unequal files": good.split(b"\n", 1)[1],
        "binary junk": os.urandom(20_000),
        "NUL bytes": b"rot\0blau\n" * 180,
        "invalid UTF-8": good.replace("ü".encode(), b"\xfc"),
        "a line of 1 MB and more": b"rot " * 300_000 + b"\n" + good.split(b"\n", 1)[1],
    }
    for name, data in bad.items():
        (folder / "bad.tgt").write_bytes(data)
        tell(name, "train", *sides, folder / "bad.tgt", "--out", folder / "out")
    (folder / "none").write_bytes(b"")
    tell("both files empty", "train", "--source", folder / "none", "--target", folder / "none", "--out", folder / "out")
    tell("target empty", "train", *sides, folder / "none", "--out", folder / "out")
    tell("missing file", "train", *sides, folder / "such", "--out", folder / "out")
    recipe = write_recipe(folder, steps=20)
    for name, setting in (
        ("unknown key", "train.stepz=3"),
        ("wrong type", "train.lr=fast"),
        ("recipe of another version", "version=2"),
    ):
        tell(name, "train", recipe, "--out", folder / "out", "--set", setting)
    for name in ("train.src", "train.tgt"):
        (folder / name).write_bytes(MARK + (folder / name).read_bytes().replace(b"\n", b"\r\n"))
    tell("Windows line ends, byte-order mark", "train", recipe, "--out", folder / "windows")
    write_corpus(folder)
    if os.getuid() == 0:
        with mounted(folder / "readonly", "ro"):
            tell("read-only file system", "train", recipe, "--out", folder / "readonly" / "out")
        with mounted(folder / "full", "size=200k"):
            tell("full disk", "train", recipe, "--out", folder / "full" / "out")
            print("    left there:", sorted(p.name for p in (folder / "full" / "out").rglob("*") if p.is_file()))


def run(folder: Path) -> None:
    model = folder / "model"
    regard("train", write_recipe(folder), "--out", model)
    for name, data in {
        "random bytes": os.urandom(20_000).replace(b"\r", b""),
        "NUL bytes": b"rot\0blau\n\0\n" * 20,
        "invalid UTF-8": b"rot \xff\xfe blau\n" * 20,
        "a line of 1.2 MB": b"rot " * 300_000 + b"\nrot\n",
        "Windows line ends, byte-order mark": MARK + b"rot blau\r\n\r\nrot\r\n",
        "nothing": b"",
        "blank lines": b"\n \n\t\n",
    }.items():
        wanted = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        done = regard("run", model, "--batch-size", 64, stdin=data)
        got = done.stdout.count(b"\n")
        warned = done.stderr.decode().strip().splitlines()
        print(f"run, {name}: {wanted} lines in, {got} out; {'; '.join(warned[:1]) or 'no warning'}", flush=True)
        assert got == wanted


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_corpus(Path(place))
        train(Path(place))
        run(Path(place))
