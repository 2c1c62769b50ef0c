"""Whether what is looked at is what was said: decoded by the fast path with a beam of 5, looked at by a second pass.

    python -m bench.looks MODEL FILE [LINES]        (500 lines unless told)

Prints the largest difference of log-probabilities, of a sentence and for each of its tokens, how far rows of weights
are from summing to 1, and whether the numbers of pictures and pages are the model's own, to the bit.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from regard.decode.config import Beam
from regard.exchange.folders import load_any
from regard.look.look import Look


def main(folder: str, source: str, count: str = "500") -> None:
    loaded = load_any(Path(folder))
    model = loaded.spec.runtime(loaded, search=Beam(size=5, max_length=loaded.search.max_length))
    with Path(source).open(encoding="utf-8") as lines:
        texts = [line.strip() for line in islice(lines, int(count)) if line.strip()]
    best = [found[0] for found in model.hypotheses(texts)]
    whole = each = rows = 0.0
    same = True
    for at in range(0, len(texts), 50):
        some = best[at : at + 50]
        told = model.explain(texts[at : at + 50], [one.tokens for one in some])
        for one, hypothesis in zip(told, some, strict=True):
            off = abs(float(one.log_probs.double().sum()) - hypothesis.log_prob)
            whole, each = max(whole, off), max(each, off / len(hypothesis.tokens))
            rows = max(rows, *(float((weights.sum(-1) - 1).abs().max()) for weights in one.maps.values()))
            same &= drawn(replace(model.look(one), saliency=lambda: None), one.maps)
    print(f"{len(texts)} sentences, {model.engine.about}: log-probabilities differ by {whole:.1e} at most", end=" ")
    print(f"({each:.1e} a token), rows miss 1 by {rows:.1e}, pictures {'equal' if same else 'DIFFER FROM'} the model")
    sys.exit(not same)


def drawn(shown: Look, maps: dict[str, torch.Tensor]) -> bool:
    """Whether a picture of each site, and the page, hold just these numbers."""
    page = {each["name"]: each for each in shown.page()["maps"]}
    for path, weights in maps.items():
        numbers = np.frombuffer(base64.b64decode(page[path]["weights"]), "<f4").reshape(weights.shape)
        pictures = [shown.picture(path, head, pieces=True).weights for head in range(len(weights))]
        if not np.array_equal(numbers, weights.numpy()) or pictures != weights.tolist():
            return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
