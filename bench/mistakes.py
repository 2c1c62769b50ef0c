"""What a newcomer sees after each of their mistakes.

    python -m bench.mistakes [SRC]      (two minutes; SRC: the src folder of another version, to compare with)

Needs root for the full disk. Messages go to the terminal; nothing is judged here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.junk import mounted

from regard.data.made import daily_columns

BASE = [
    "typer",
    "rich",
    "numpy",
    "safetensors",
    "tokenizers",
    "pydantic",
    "pyyaml",
]  # what a base install brings, torch not
SMALL = ["--set=model.encoder_layers=1", "--set=model.decoder_layers=1", "--threads=1"]


class Newcomer:
    def __init__(self, folder: Path, src: str | None) -> None:
        self.folder = folder
        self.env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"} | ({"PYTHONPATH": src} if src else {})
        self.env.pop("REGARD_DATA", None)

    def start(self, *arguments: str, python: str = sys.executable, **options: object) -> subprocess.Popen[bytes]:
        call = [python, "-c", "from regard.cli.main import main; main()", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        return subprocess.Popen(call, env=self.env, cwd=self.folder, **pipes)  # type: ignore[call-overload,no-any-return]

    def tries(self, what: str, *arguments: str, shown: int = 6, **options: object) -> None:
        self.tell(what, self.start(*arguments, **options), shown)

    def tell(self, what: str, process: subprocess.Popen[bytes], shown: int = 6) -> None:
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            what += ", still at work after 90 seconds"
        lines = [line for line in (err + out).decode("utf-8", "replace").splitlines() if not line.startswith("train ")]
        print(f"\n{what} (exit {process.returncode})\n    " + "\n    ".join(lines[-shown:]), flush=True)


def main(folder: Path, src: str | None) -> None:
    one = Newcomer(folder, src)
    for side, texts in zip(("en", "de"), daily_columns("train"), strict=False):
        (folder / side).write_text("".join(f"{text}\n" for text in texts[:2_800]), "utf-8")
        (folder / f"v.{side}").write_text("".join(f"{text}\n" for text in texts[2_800:3_000]), "utf-8")
    files = ["--source", "en", "--target", "de"]
    valid = ["--valid-source", "v.en", "--valid-target", "v.de"]
    train = ["train", *files, *valid, *SMALL, "--minutes=0.2"]
    done = one.start(*train, "--out=model")
    one.tell("no mistake, to have a model", done, 2)

    one.tries("1 no argument at all", shown=3)
    one.tries("2 only one of two files", "train", "--source", "en")
    one.tries("3 wrong path", "train", "--source", "eng", "--target", "de")
    one.tries("4 nothing to validate on", "train", *files, *SMALL, "--minutes=0.05", "--out=m4")
    swapped = ["--valid-source", "v.de", "--valid-target", "v.en"]
    one.tries("5 validation files swapped", "train", *files, *swapped, *SMALL, "--minutes=0.05", "--out=m5", shown=9)
    one.tries("6 the same file twice", "train", "--source=en", "--target=en", *SMALL, "--minutes=0.05", "--out=m6")
    (folder / "less").write_text("".join((folder / "de").read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")
    one.tries("7 a line is missing", "train", "--source", "en", "--target", "less")
    (folder / "utf16").write_bytes((folder / "de").read_text("utf-8").encode("utf-16"))
    one.tries("8 saved as UTF-16", "train", "--source", "en", "--target", "utf16")
    for name in ("three", "drei"):
        (folder / name).write_text("a\nb\nc\n", "utf-8")
    one.tries("9 three lines", "train", "--source=three", "--target=drei", *SMALL, "--minutes=0.05", "--out=m9")
    one.tries("10 no minutes", *train[:-1], "--minutes=0", "--out=m10")
    one.tries("11 a typing mistake in a setting", *train, "--set=train.learning_rate=1", "--out=m11")
    one.tries("12 a recipe that is not there", "train", "recipe.yml")
    one.tries(
        "13 a corpus whose folder is not known", "train", "--set=data.train=[{corpus: multi30k/en-de/train}]", *files
    )
    one.tries("14 second run", *train, "--out=model")
    one.tries("15 second run, other settings", *train[:-1], "--minutes=0.3", "--out=model")
    first = one.start(*train[:-1], "--minutes=1", "--out=busy")
    time.sleep(12)
    one.tries("16 two runs in one folder", *train[:-1], "--minutes=1", "--out=busy")
    one.tries("17 run on an unfinished model", "run", "busy")
    first.send_signal(signal.SIGINT)
    one.tell("18 Ctrl-C in training", first, 2)
    one.tries("19 run on a folder without a model", "run", ".")
    one.tries("20 a file as the folder of a model", "run", "en")
    one.tries("21 a sentence without quotes", "attend", "model", "I", "ate", "an", "apple", shown=3)
    one.tries("22 a picture of another kind", "attend", "model", "I ate an apple", "-o", "apple.png")
    one.tries("23 references that miss a line", "evaluate", "model", "--source=en", "--target=less")
    with mounted(folder / "full", "size=300k"):
        one.tries("24 no space on disk", *train, "--out=full/model")
    bare = folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", bare], check=True)
    python = str(bare / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *BASE], check=True, stderr=subprocess.DEVNULL)
    one.env["PYTHONPATH"] = src or str(Path(__file__).parents[1] / "src")
    one.tries("25 PyTorch is not installed", *train, "--out=m25", python=python, shown=3)
    shutil.rmtree(bare)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place), sys.argv[1] if len(sys.argv) > 1 else None)
