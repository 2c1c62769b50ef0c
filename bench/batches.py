"""Whether a sentence's translation depends on its neighbours: the same text at batch sizes 1, 7 and 64, and shuffled.

    python -m bench.batches MODEL SOURCE [SENTENCES]

Texts that differ are counted; of those, ties: pairs whose scores lie within 1e-5, where rounding alone decides.
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard import load
from regard.data.text import lines
from regard.rng import Key


def main(folder: Path, source: Path, count: int) -> None:
    texts = list(lines(source, strict=True))[:count]
    order = Key(0, ("shuffle",)).generator().permutation(len(texts)).tolist()
    results = {}
    for name, size in (("batch 1", 1), ("batch 7", 7), ("batch 64", 64), ("shuffled, batch 64", 64)):
        model = load(folder, batch_size=size)
        if name.startswith("shuffled"):
            mixed = model.translate([texts[i] for i in order])
            found = [mixed[place] for _, place in sorted((i, place) for place, i in enumerate(order))]
        else:
            found = model.translate(texts)
        results[name] = [(model.text(best[0]), best[0].score) for best in found]
    alone = results.pop("batch 1")
    for name, found in results.items():
        apart = [abs(a[1] - b[1]) for a, b in zip(alone, found, strict=True)]
        differ = [gap for a, b, gap in zip(alone, found, apart, strict=True) if a[0] != b[0]]
        ties = sum(gap < 1e-5 for gap in differ)
        print(f"{name} against batch 1: {len(differ)} of {len(texts)} texts differ, {ties} of them ties", end="; ")
        print(f"scores apart by at most {max(apart):.1e}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
