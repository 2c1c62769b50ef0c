"""A job of a million lines: memory while it runs, killed in the middle and gone on with.

    REGARD_DATA=../shared/data python -m bench.million MODEL [LINES]      (some five minutes on two cores, greedy)

Lines are Multi30k's, over and over. The job is killed (-9) after a third and after two thirds; in the end as many lines
are there, and each is what the first run of 29,000 said to the same line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from bench.memory import memory

TEXT = "multi30k/tok/train.lc.norm.tok.en"


def main(model: Path, lines: int) -> None:
    text = (Path(os.environ.get("REGARD_DATA", "../shared/data")) / TEXT).read_bytes().splitlines(keepends=True)
    regard = str(Path(sys.executable).with_name("regard"))
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "source", Path(place) / "out"
        with source.open("wb") as file:
            for i in range(0, lines, len(text)):
                file.writelines(text[: lines - i])
        once = subprocess.run(
            [regard, "run", model, "--beam", "1"], input=b"".join(text), stdout=subprocess.PIPE, check=True
        ).stdout.splitlines(keepends=True)
        began, peak, kills = time.monotonic(), {"RssAnon": 0, "VmRSS": 0}, [lines // 3, 2 * lines // 3]
        while True:
            process = subprocess.Popen([regard, "run", model, source, "--beam", "1", "--output", out])
            while process.poll() is None:
                time.sleep(0.5)
                for name, size in memory(process.pid).items():
                    peak[name] = max(peak[name], size)
                if kills and done(Path(place)) >= kills[0]:
                    process.send_signal(signal.SIGKILL)
                    print(f"killed after {done(Path(place)):,} lines", flush=True)
                    kills.pop(0)
                    process.wait()
            if process.returncode == 0:
                break
        seconds = time.monotonic() - began
        with out.open("rb") as file:
            for i in range(0, lines, len(text)):
                assert list(islice(file, min(len(text), lines - i))) == once[: lines - i], f"lines from {i:,} differ"
            assert not file.read(1), "there are more lines than went in"
    shown = ", ".join(f"{name} {size / 1024:,.0f} MB" for name, size in peak.items())
    print(f"{lines:,} lines in {seconds:,.0f} s, {lines / seconds:,.0f} a second; killed twice, all there, in order")
    print(f"peak of memory: {shown}")


def done(folder: Path) -> int:
    """Lines that are written already."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("out.*.partial"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
