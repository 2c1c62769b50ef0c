"""Whether a sentence's translation depends on its neighbours, on threads, or on who decodes it.

    python -m bench.batches MODEL SOURCE [SENTENCES] [--beam K]

The same text at batch sizes 1, 7 and 64, on one thread and two, and shuffled; by torch too, where the folder has its
model. Texts that differ are counted; of those, ties: pairs whose scores lie within 1e-5, where rounding alone decides.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from regard import load
from regard.data.text import lines
from regard.decode.config import Beam
from regard.rng import Key

WAYS = [("auto", 1, 1), *(("auto", size, threads) for threads in (1, 2) for size in (7, 64)), ("torch", 64, 2)]


def main(folder: Path, source: Path, count: int, beam: int) -> None:
    texts = list(lines(source, strict=True))[:count]
    order = Key(0, ("shuffle",)).generator().permutation(len(texts)).tolist()
    alone: list[tuple[str, float]] = []
    for engine, size, threads in [*WAYS, ("shuffled", 64, 2)]:
        if engine == "torch" and not (folder / "model.safetensors").exists():
            continue
        model = load(folder, batch_size=size, threads=threads, engine="auto" if engine == "shuffled" else engine)
        model.search = Beam(size=beam)
        given = order if engine == "shuffled" else range(len(texts))
        best = [found[0] for found in model.hypotheses([texts[i] for i in given])]
        found = [
            (model.text(best[place]), best[place].score) for _, place in sorted((i, n) for n, i in enumerate(given))
        ]
        if not alone:
            alone = found
            continue
        apart = [abs(a[1] - b[1]) for a, b in zip(alone, found, strict=True)]
        differ = [gap for a, b, gap in zip(alone, found, apart, strict=True) if a[0] != b[0]]
        ties = sum(gap < 1e-5 for gap in differ)
        print(f"{engine}, batch {size}, threads {threads}: {len(differ)} of {len(texts)} texts are others", end=", ")
        print(f"{ties} of them ties; scores apart by at most {max(apart):.1e}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("sentences", type=int, nargs="?", default=1000)
    parser.add_argument("--beam", type=int, default=5)
    asked = parser.parse_args()
    main(asked.model, asked.source, asked.sentences, asked.beam)
