"""What models learn of toy tasks: copy, reverse, sort; and how far a recurrent model gets without attention.

    python bench/learning.py            the whole table (about 40 minutes on two cores)
    python bench/learning.py copy       one task of copy, reverse, sort, lengths

Sequences are drawn by counted randomness: the training stream, and the test set, which it never meets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.nn import functional as F

from regard.attention.site import Site
from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.models.build import build
from regard.models.config import RecurrentAttention, RecurrentConfig, Seq2seqConfig
from regard.models.presets import transformer_tiny
from regard.rng import Key
from regard.shapes import Padded

FIRST, SYMBOLS = 3, 20  # ids 0, 1, 2 are padding, start and end
VOCABULARY = FIRST + SYMBOLS

TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "copy": list,
    "reverse": lambda symbols: symbols[::-1],
    "sort": sorted,
}


@dataclass(frozen=True)
class Budget:
    """How a model is trained."""

    steps: int
    rate: float
    batch: int = 64
    warmup: int = 100


MODELS: dict[str, tuple[Seq2seqConfig, Budget]] = {
    "RNN, additive attention": (
        RecurrentConfig(
            source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, embedding=64, width=128, cell="gru",
            attention=RecurrentAttention(score="additive"),
        ),
        Budget(steps=2000, rate=3e-3),
    ),
    "RNN, no attention": (
        RecurrentConfig(
            source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, embedding=64, width=128, cell="gru",
            attention=None,
        ),
        Budget(steps=2000, rate=3e-3),
    ),
    "tiny Transformer": (
        replace(transformer_tiny().sized(VOCABULARY, VOCABULARY), dropout=0.0),
        Budget(steps=2000, rate=1e-3),
    ),
}  # fmt: skip


LEARNERS = ("RNN, additive attention", "tiny Transformer")
COMPARED = ("RNN, additive attention", "RNN, no attention")


def sequences(key: Key, count: int, shortest: int, longest: int) -> list[list[int]]:
    """Random symbols, of one random length a batch."""
    draw = key.generator()
    length = int(draw.integers(shortest, longest + 1))
    return draw.integers(FIRST, VOCABULARY, (count, length)).tolist()  # type: ignore[no-any-return]


def learn(
    model: Any,
    task: str,
    budget: Budget,
    lengths: tuple[int, int],
    seed: int = 0,
    tick: Callable[[float], None] = lambda loss: None,
) -> None:
    """Train on a stream of fresh sequences; Adam, linear warm-up, linear decay to zero."""
    optimizer = torch.optim.Adam(model.parameters(), lr=budget.rate, betas=(0.9, 0.98), fused=True)
    for step in range(budget.steps):
        rate = budget.rate * min((step + 1) / budget.warmup, (budget.steps - step) / (budget.steps - budget.warmup))
        for group in optimizer.param_groups:
            group["lr"] = rate
        key = Key(seed, ("train", step))
        inputs = sequences(key, budget.batch, *lengths)
        outputs = torch.tensor([[1, *TASKS[task](symbols), 2] for symbols in inputs])
        source = Padded.of([[*symbols, 2] for symbols in inputs])
        logits = model(source, outputs[:, :-1], Site(key=key))
        loss = F.cross_entropy(logits.flatten(0, 1), outputs[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tick(float(loss.detach()))


def exact_match(model: Any, task: str, length: int, count: int = 500) -> float:
    """Share of unseen sequences answered without a fault, by greedy search."""
    inputs = sequences(Key(0, ("test",)), count, length, length)
    source = Padded.of([[*symbols, 2] for symbols in inputs])
    answers = decode(model, source, Greedy(max_length=length + 2))
    wanted = [[*TASKS[task](symbols), 2] for symbols in inputs]
    return sum(best.tokens == want for (best,), want in zip(answers, wanted, strict=True)) / count


def show(progress: Progress, bar: TaskID, loss: float) -> None:
    progress.update(bar, advance=1, loss=loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=[*TASKS, "lengths"], help="copy, reverse, sort, lengths")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    table = Table("model", "task", "trained on lengths", "exact match", "minutes", title="Learning")
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for task in arguments.tasks:
            by_length = task == "lengths"
            lengths, tests = ((1, 40), (5, 10, 20, 40)) if by_length else ((10, 10), (10,))
            job = "copy" if by_length else task
            for name in COMPARED if by_length else LEARNERS:
                config, budget = MODELS[name]
                budget = replace(budget, steps=3 * budget.steps) if by_length else budget
                model = build(config, arguments.seed)
                bar = progress.add_task(f"{name}, {task}", total=budget.steps, loss=float("nan"))
                began = time.perf_counter()
                learn(model, job, budget, lengths, arguments.seed, partial(show, progress, bar))
                minutes = (time.perf_counter() - began) / 60
                scores = ", ".join(f"{n}: {exact_match(model, job, n):.1%}" for n in tests)
                table.add_row(name, job, "{} to {}".format(*lengths), scores, f"{minutes:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
