"""Reading: a model of text is tuned to answer: by a label, a number, a choice, tags, or a place in a document."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.site import Site
from regard.data.batches import plan
from regard.data.examples import Example
from regard.engine.engine import Engine
from regard.errors import UserError
from regard.metrics.labels import label_scores
from regard.models.reader import Reader
from regard.nn.loss import cross_entropy
from regard.rng import Key
from regard.tasks.labelled.config import LabelledRecipe, ReadTrainConfig
from regard.tasks.labelled.layout import Batch, Layout, Unit
from regard.tasks.labelled.question import Answer, metrics_of
from regard.tasks.report import Report
from regard.tasks.runnable import Tick, ignore
from regard.tasks.task import Carry, Direction, Loss, Shape

Names = NDArray[np.int64]
Examples = Sequence[Example]
REHEARSED = 200  # examples by which an evaluation is timed


class Reading:
    """A Task over labelled examples."""

    counts = "examples"

    def __init__(self, layout: Layout, examples: Examples, held: Examples, train: ReadTrainConfig) -> None:
        self.layout, self.held, self.train = layout, held, train
        self.question, self.metrics = layout.question, metrics_of(layout.config.question)
        self.metric = self.metrics[0] if train.metric == "default" else train.metric
        if self.metric not in self.metrics:
            task = layout.config.question
            raise UserError(f"there is no metric {self.metric!r} for {task}; choose {', '.join(self.metrics)}")
        self.units = [unit for unit in layout.units(examples) if unit[0].wanted is not None]
        if not self.units:
            raise UserError("no example to train on has an answer that can be read; look at data.train")
        self.lengths = np.array([len(unit) * max(len(row.ids) for row in unit) for unit in self.units])

    @property
    def about(self) -> str:
        cut = f"; {self.layout.cut:,} longer than data.max_length, cut" if self.layout.cut else ""
        return f"training on {len(self.units):,} examples, validating on {len(self.held):,}{cut}"

    @property
    def primary(self) -> tuple[str, Direction]:
        return (self.metric, "higher") if self.held else ("train_loss", "lower")

    def batches(self, seed: int, epoch: int) -> list[Names]:
        return plan(self.lengths, self.lengths, self.train.batch_tokens, Key(seed, ("batches", epoch)))

    def largest(self) -> Names:
        every = plan(self.lengths, self.lengths, self.train.batch_tokens, None)
        return max(every, key=lambda name: self.shape(name).rows * self.shape(name).target)

    def shape(self, name: Names) -> Shape:
        lengths = [len(row.ids) for i in name for row in self.units[i]]
        return Shape(len(lengths), 0, max(lengths), 0, sum(lengths))

    def describe(self, name: Names) -> str:
        return f"examples {', '.join(str(self.units[i][0].item + 1) for i in sorted(name.tolist())[:5])} and others"

    def load(self, name: Names) -> Batch:
        return Batch.of([self.units[i] for i in name])

    def loss(self, model: Reader, batch: Batch, carry: Carry | None, key: Key | None) -> Loss:
        site = Site(key, losses={})
        seen = model.see(batch.items, site)
        logits = model.answer(seen, batch.groups, site)
        total, weight = self.question.loss(logits, batch, self.train.label_smoothing if key is not None else 0.0)
        if self.train.lm_loss_weight:  # [Radford+ 2018, eq. 5]
            tokens = batch.items.tokens
            real = torch.arange(tokens.shape[1])[None] < batch.items.lengths[:, None] - 1
            wanted = tokens[:, 1:][real[:, :-1]]
            lost = cross_entropy(model.trunk.head, seen.x[:, :-1][real[:, :-1]], wanted)
            total = total + self.train.lm_loss_weight * weight * lost / len(wanted)
        return Loss.of(site, total, weight)

    def summary(self, recipe: LabelledRecipe, report: Report) -> dict[str, str]:
        config = self.layout.config
        rows = {
            "examples": f"{len(self.units):,} to train on, {len(self.held):,} to validate on",
            "cut": f"{self.layout.cut:,} longer than data.max_length ({recipe.data.max_length} tokens)",
        }
        if config.labels:
            counts = Counter(label for first, *_ in self.units for label in np.ravel(first.wanted).tolist())
            rows["labels"] = ", ".join(f"{label}: {counts[i]:,}" for i, label in enumerate(config.labels))
        return rows

    def evaluate(self, model: Reader, engine: Engine) -> dict[str, float]:
        return self.scores(model, self.held) if self.held else {}

    def rehearse(self, model: Reader, engine: Engine) -> float:
        some = self.held[:: max(1, len(self.held) // REHEARSED)]
        began = time.perf_counter()
        answers(model, self.layout, some)
        return (time.perf_counter() - began) * len(self.held) / max(1, len(some))

    def scores(self, model: Reader, examples: Examples) -> dict[str, float]:
        said = [answer.said for answer in answers(model, self.layout, examples)]
        return label_scores(self.metrics, said, [self.question.wanted(example) for example in examples])


@torch.no_grad()
def answers(model: Reader, layout: Layout, examples: Examples, tokens: int = 4096, tick: Tick = ignore) -> list[Answer]:
    """Of each example, in order."""
    units = list(layout.units([example._replace(answer=None) for example in examples]))
    lengths = np.array([len(unit) * max(len(row.ids) for row in unit) for unit in units], np.int64)
    told: list[Any] = [None] * len(units)
    done = 0
    for names in plan(lengths, lengths, tokens, None):
        batch = Batch.of([units[i] for i in names])
        logits = model.answer(model.see(batch.items), batch.groups)
        for i, one in zip(names, layout.question.outputs(logits, batch), strict=True):
            told[i] = one
        done += len(names)
        tick(min(len(examples), done * len(examples) // len(units)))
    owned: list[list[tuple[Any, Unit]]] = [[] for _ in examples]
    for one, unit in zip(told, units, strict=True):
        owned[unit[0].item].append((one, unit))
    return [layout.question.answer(layout.config, example, own) for example, own in zip(examples, owned, strict=True)]
