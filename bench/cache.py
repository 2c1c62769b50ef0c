"""What one decoding step costs with the cache and without it, as the output grows.

    python bench/cache.py

The lectures: "each p is a full pass through the model". Without a cache it is; with one, a step looks at what the
earlier steps left. Greedy, batch 16, source of 20 tokens; medians of interleaved rounds; nothing else should run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from rich.console import Console
from rich.table import Table

from regard.models.build import build
from regard.models.presets import recurrent_bahdanau, transformer_base, transformer_tiny
from regard.shapes import Padded

BATCH, SOURCE, VOCABULARY = 16, 20, 8000
LENGTHS = (8, 16, 32, 64, 128)
ROUNDS = 5
MODELS = {
    "tiny Transformer": transformer_tiny,
    "base Transformer": transformer_base,
    "GRU, additive attention": recurrent_bahdanau,
}


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


@torch.inference_mode()
def main() -> None:
    table = Table("model", "words so far", "with cache, ms", "without, ms", "ratio", title="One more word")
    draw = torch.Generator().manual_seed(0)
    for name, preset in MODELS.items():
        model = build(replace(preset().sized(VOCABULARY, VOCABULARY), tied="all"))
        source = Padded.of(torch.randint(3, VOCABULARY, (BATCH, SOURCE), generator=draw).tolist())
        for length in LENGTHS:
            target = torch.randint(3, VOCABULARY, (BATCH, length), generator=draw)
            state = model.begin(source, Padded(target, torch.full((BATCH,), length)))
            fresh = model.begin(source)  # the source is read once either way

            def step(model=model, target=target, state=state) -> object:  # type: ignore[no-untyped-def]
                return model.step(target[:, -1], state)

            def full(model=model, target=target, fresh=fresh) -> object:  # type: ignore[no-untyped-def]
                return model.head(model.advance(target, fresh)[0][:, -1]).log_softmax(-1)

            full(), step()
            pairs = [(milliseconds(step), milliseconds(full)) for _ in range(ROUNDS)]
            cached, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
            table.add_row(name, str(length), f"{cached:.1f}", f"{plain:.1f}", f"{plain / cached:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
