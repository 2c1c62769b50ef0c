"""A little corpus, a little recipe, and a run of it in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from regard.rng import Key
from tests import forked

WORDS = ["rot", "grün", "blau", "gelb", "weiß", "schwarz", "grau", "rosa"]


def write_corpus(folder: Path, count: int = 200) -> None:
    """Sentences of colours, and the same backwards."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = Key(0, ("toy",)).generator()
    rows = [[WORDS[i] for i in draw.integers(0, len(WORDS), int(draw.integers(1, 7)))] for _ in range(count)]
    for name, part in (("train", rows[20:]), ("valid", rows[:20])):
        (folder / f"{name}.src").write_text("".join(" ".join(row) + "\n" for row in part), "utf-8")
        (folder / f"{name}.tgt").write_text("".join(" ".join(row[::-1]) + "\n" for row in part), "utf-8")


def write_recipe(folder: Path, **train: object) -> Path:
    """A run of a few seconds."""
    write_corpus(folder)
    recipe = {
        "data": {
            "train": [{"source": str(folder / "train.src"), "target": str(folder / "train.tgt")}],
            "valid": [{"source": str(folder / "valid.src"), "target": str(folder / "valid.tgt")}],
            "tokenizer": {"kind": "words", "vocabulary": 20},
        },
        "model": {
            "kind": "transformer", "width": 16, "hidden": 24, "num_heads": 2, "encoder_layers": 1,
            "decoder_layers": 1, "tied": "all", "dropout": 0.1,
        },
        "train": {"steps": 40, "batch_tokens": 64, "evaluations": 4, "checkpoints": 8, **train},
        "search": {"size": 2, "max_length": 10},
    }  # fmt: skip
    path = folder / "toy.yaml"
    path.write_text(json.dumps(recipe), "utf-8")
    return path


def command(*arguments: object) -> list[str]:
    code = "import torch; torch.set_num_threads(1); from regard.cli.main import main; main()"
    return [sys.executable, "-c", code, *map(str, arguments)]


def start(folder: Path, *arguments: object) -> forked.Process:
    """The program, at work; what it says is kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return forked.Process([*map(str, arguments)], folder, {**os.environ, "NO_COLOR": "1"})


def regard(*arguments: object, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    """The program itself; fails the test with what it said if it ends otherwise than expected."""
    env = {**os.environ, "NO_COLOR": "1"}
    done = forked.run([*map(str, arguments)], stdin, env)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done
