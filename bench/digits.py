"""Spoken digits as sequences of vectors: `REGARD_DATA=../shared/data python -m bench.digits [FOLDER]`.

What the recipes in recipes/vectors learn from: log energies of 24 bands, a hundred frames a second, of recordings in
REGARD_DATA/fsdd. train.npz and test.npz (recordings 0 to 4 of each speaker and digit) have a recording each, with its
label; rows-train.npz and rows-test.npz one to four in a row, whose digits stand in rows-train.txt and rows-test.txt.
"""

import os
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.rng import Key

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
FRAME, HOP, BANDS, RATE = 200, 80, 24, 8000
Recording = tuple[NDArray[Any], int]


def bands() -> NDArray[Any]:
    """Triangles on the mel scale, of 129 frequencies each."""
    frequencies = np.linspace(0, RATE / 2, 129)
    mel = 2595 * np.log10(1 + frequencies / 700)
    edges = np.interp(np.linspace(80, mel[-1], BANDS + 2), mel, frequencies)
    rise = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall))


def vectors(path: Path) -> NDArray[Any]:
    """Log energies (T, 24)."""
    with wave.open(str(path)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
    padded = np.pad(sound, (0, max(0, FRAME - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP] * np.hanning(FRAME)
    energies = np.abs(np.fft.rfft(frames, 256)) ** 2 @ bands().T
    return np.log(energies + 1e-6).astype(np.float32)


def write(path: Path, rows: list[NDArray[Any]], **more: Any) -> None:
    x = np.zeros((len(rows), max(map(len, rows)), BANDS), np.float32)
    for place, row in zip(x, rows, strict=True):
        place[: len(row)] = row
    np.savez(path, x=x, lengths=[len(row) for row in rows], **more)


def in_a_row(recordings: list[Recording], count: int, name: str) -> list[tuple[NDArray[Any], str]]:
    """So many draws of one to four recordings of at most 0.6 s each."""
    draw, rows = Key(0, ("digits", name)).generator(), []
    for _ in range(count):
        chosen = [recordings[i] for i in draw.integers(len(recordings), size=int(draw.integers(1, 5)))]
        rows.append((np.concatenate([x[:60] for x, _ in chosen]), " ".join(WORDS[digit] for _, digit in chosen)))
    return rows


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/digits")
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(Path(os.environ.get("REGARD_DATA", "../shared/data"), "fsdd").glob("*.wav"))
    parts: dict[str, list[Recording]] = {"train": [], "test": []}
    for path in paths:
        digit, _, number = path.stem.split("_")
        parts["test" if int(number) < 5 else "train"].append((vectors(path), int(digit)))
    for name, recordings in parts.items():
        write(folder / f"{name}.npz", [x for x, _ in recordings], y=[digit for _, digit in recordings])
        rows = in_a_row(recordings, 4000 if name == "train" else 300, name)
        write(folder / f"rows-{name}.npz", [x for x, _ in rows])
        (folder / f"rows-{name}.txt").write_text("".join(f"{text}\n" for _, text in rows), "utf-8")
        print(f"{name}: {len(recordings):,} recordings")


if __name__ == "__main__":
    main()
