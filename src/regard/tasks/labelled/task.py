"""Reading: a model of text is tuned to answer: by a label, a number, a choice, tags, or a place in a document."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.site import Site
from regard.data.batches import plan
from regard.data.examples import Example
from regard.engine.engine import Engine
from regard.errors import UserError
from regard.metrics.labels import METRICS_OF, label_scores
from regard.nn.loss import cross_entropy
from regard.rng import Key
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.layout import Batch, Layout, Unit
from regard.tasks.report import Report
from regard.tasks.runnable import Tick, ignore
from regard.tasks.task import Direction, Loss, Shape

Names = NDArray[np.int64]
LONGEST_ANSWER = 30  # tokens, as BERT searches spans
REHEARSED = 200  # examples by which an evaluation is timed
NEVER = -1e4


@dataclass(frozen=True)
class Answer:
    """What was said of an example, how probable it is, and what else might have been said."""

    said: Any
    """A label, a number, the number of a choice, tags, or words of the document."""
    probability: Any = None
    """Of a number there is none; of tags, one for each."""
    others: tuple[tuple[str, float], ...] = ()
    """Every label or choice, the best first."""
    place: tuple[int, int] | None = None
    """Of words in the document: from where to where, in characters."""

    def line(self, num_best: int = 1) -> str:
        """The best labels with their probabilities; a number; the number of a choice, from 1; tags; or words of the
        document, where they stand, and how probable they are."""
        if self.place is not None:
            words = " ".join(str(self.said).split())
            return f"{words}\t{self.place[0]}-{self.place[1]}\t{self.probability:.4f}"
        if isinstance(self.said, float):
            return f"{self.said:.4f}"
        if isinstance(self.said, tuple):
            return " ".join(self.said)
        if isinstance(self.said, int):
            return f"{self.said + 1}\t{self.probability:.4f}"
        return "\t".join(f"{' '.join(label.split())}\t{p:.4f}" for label, p in self.others[:num_best])

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        data = {"answer": self.said + 1 if isinstance(self.said, int) else self.said}  # choices count from 1
        if self.probability is not None:
            data["probability"] = self.probability
        if self.others:
            data["all"] = [{"label": label, "probability": p} for label, p in self.others]
        if self.place is not None:
            data |= {"start": self.place[0], "end": self.place[1]}
        return data


class Reading:
    """A Task over labelled examples."""

    counts = "examples"

    def __init__(
        self,
        layout: Layout,
        examples: Sequence[Example],
        held: Sequence[Example],
        *,
        batch_tokens: int,
        auxiliary: float = 0.0,
        smoothing: float = 0.0,
        metric: str | None = None,
    ) -> None:
        """`auxiliary`: the share of a language model's loss that is added [Radford+ 2018, eq. 5]."""
        self.layout, self.held, self.batch_tokens = layout, held, batch_tokens
        self.auxiliary, self.smoothing = auxiliary, smoothing
        self.question = layout.config.question
        known = METRICS_OF[self.question]
        self.metric = metric or known[0]
        if self.metric not in known:
            raise UserError(f"there is no metric {self.metric!r} for {self.question}; choose {', '.join(known)}")
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
        return plan(self.lengths, self.lengths, self.batch_tokens, Key(seed, ("batches", epoch)))

    def largest(self) -> Names:
        every = plan(self.lengths, self.lengths, self.batch_tokens, None)
        return max(every, key=lambda name: self.shape(name).rows * self.shape(name).target)

    def shape(self, name: Names) -> Shape:
        lengths = [len(row.ids) for i in name for row in self.units[i]]
        return Shape(len(lengths), 0, max(lengths), 0, sum(lengths))

    def describe(self, name: Names) -> str:
        return f"examples {', '.join(str(self.units[i][0].item + 1) for i in sorted(name.tolist())[:5])} and others"

    def load(self, name: Names) -> Batch:
        return Batch.of([self.units[i] for i in name])

    def loss(self, model: nn.Module, batch: Batch, carry: Tensor | None, key: Key | None) -> Loss:
        site = Site(key=key)
        seen = model.see(batch.texts, batch.segments, site)  # type: ignore[operator]
        logits = model.answer(seen, batch.groups, site)  # type: ignore[operator]
        total, weight = LOSSES[self.question](logits, batch, self.smoothing if key is not None else 0.0)
        if self.auxiliary:
            tokens = batch.texts.tokens
            real = torch.arange(tokens.shape[1])[None] < batch.texts.lengths[:, None] - 1
            wanted = tokens[:, 1:][real[:, :-1]]
            lost = cross_entropy(model.trunk.head, seen.x[:, :-1][real[:, :-1]], wanted)  # type: ignore[union-attr, arg-type]
            total = total + self.auxiliary * weight * lost / len(wanted)
        return Loss(total, weight)

    def summary(self, recipe: LabelledRecipe, report: Report) -> dict[str, str]:
        config = self.layout.config
        rows = {
            "examples": f"{len(self.units):,} to train on, {len(self.held):,} to validate on",
            "cut": f"{self.layout.cut:,} longer than data.max_length ({recipe.data.max_length} tokens)",
        }
        if self.question == "classification":
            counts = Counter(config.labels[unit[0].wanted] for unit in self.units)
            rows["labels"] = ", ".join(f"{label}: {counts[label]:,}" for label in config.labels)
        return rows

    def evaluate(self, model: nn.Module, engine: Engine) -> dict[str, float]:
        return self.scores(model, self.held) if self.held else {}

    def rehearse(self, model: nn.Module, engine: Engine) -> float:
        some = self.held[:: max(1, len(self.held) // REHEARSED)]
        began = time.perf_counter()
        answers(model, self.layout, some)
        return (time.perf_counter() - began) * len(self.held) / max(1, len(some))

    def scores(self, model: nn.Module, examples: Sequence[Example]) -> dict[str, float]:
        said = [answer.said for answer in answers(model, self.layout, examples)]
        return label_scores(self.question, said, wanted_of(self.question, examples))


def wanted_of(question: str, examples: Sequence[Example]) -> list[Any]:
    """The answers of examples, as metrics take them."""
    return [[text for _, text in e.answer] if question == "spans" else e.answer for e in examples]


def _labels(logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
    firsts = [row.wanted for row, place in zip(batch.rows, batch.within.tolist(), strict=True) if not place]
    total = F.cross_entropy(logits, torch.tensor(firsts), reduction="sum", label_smoothing=smoothing)
    return total, float(len(firsts))


def _numbers(logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
    firsts = [row.wanted for row, place in zip(batch.rows, batch.within.tolist(), strict=True) if not place]
    return F.mse_loss(logits[:, 0], logits.new_tensor(firsts), reduction="sum"), float(len(firsts))


def _by_unit(logits: Tensor, batch: Batch) -> Tensor:
    """A row for each unit: what its choices are worth, and nothing where it has fewer than others."""
    table = logits.new_full((int(batch.groups[-1]) + 1, int(batch.within.max()) + 1), -torch.inf)
    return table.index_put((batch.groups, batch.within), logits[:, 0])


def _tags(logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
    wanted = torch.tensor([tag for row in batch.rows for tag in row.wanted])
    known = wanted >= 0
    told = logits[batch.words][known]
    total = F.cross_entropy(told, wanted[known], reduction="sum", label_smoothing=smoothing)
    return total, float(max(1, int(known.sum())))


def _spans(logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
    logits = logits.masked_fill(~batch.document[..., None], NEVER).transpose(1, 2)  # -> (B, 2, T)
    wanted = torch.tensor([row.wanted for row in batch.rows])
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum") / 2, float(len(wanted))


LOSSES: dict[str, Callable[[Tensor, Batch, float], tuple[Tensor, float]]] = {
    "classification": _labels,
    "regression": _numbers,
    # without smoothing: choices that are not there cannot have a share
    "choice": lambda logits, batch, smoothing: _labels(_by_unit(logits, batch), batch, 0.0),
    "tagging": _tags,
    "spans": _spans,
}


@torch.no_grad()
def answers(
    model: Any, layout: Layout, examples: Sequence[Example], tokens: int = 4096, tick: Tick = ignore
) -> list[Answer]:
    """Of each example, in order."""
    units = list(layout.units([example._replace(answer=None) for example in examples]))
    lengths = np.array([len(unit) * max(len(row.ids) for row in unit) for unit in units], np.int64)
    told: list[Any] = [None] * len(units)
    done = 0
    for names in plan(lengths, lengths, tokens, None):
        batch = Batch.of([units[i] for i in names])
        logits = model.answer(model.see(batch.texts, batch.segments), batch.groups)
        for i, one in zip(names, _apart(logits, batch, layout.config.question), strict=True):
            told[i] = one
        done += len(names)
        tick(min(len(examples), done * len(examples) // len(units)))
    owned: list[list[tuple[Any, Unit]]] = [[] for _ in examples]
    for one, unit in zip(told, units, strict=True):
        owned[unit[0].item].append((one, unit))
    return [_answer(layout, example, own) for example, own in zip(examples, owned, strict=True)]


def _apart(logits: Tensor, batch: Batch, question: str) -> list[NDArray[np.float64]]:
    """Of each unit: log-probabilities of labels, of choices, of the tags of its words; a number; or logits of where an
    answer begins and ends."""
    if question == "tagging":
        sizes = [len(row.spots) for row in batch.rows]
        return [x.numpy() for x in logits[batch.words].double().log_softmax(-1).split(sizes)]
    if question == "spans":
        return [x[row.second :][: len(row.spots)].double().numpy() for x, row in zip(logits, batch.rows, strict=True)]
    table = _by_unit(logits, batch) if question == "choice" else logits
    return list((table if question == "regression" else table.double().log_softmax(-1)).numpy())


def _answer(layout: Layout, example: Example, own: list[tuple[Any, Unit]]) -> Answer:
    config = layout.config
    if config.question == "spans":
        return _best_span(example.texts[0], [(x, unit[0].spots) for x, unit in own])
    if config.question == "tagging":
        told = np.concatenate([x for x, _ in own]) if own else np.zeros((0, len(config.labels)))
        tags = tuple(config.labels[i] for i in told.argmax(-1)) if len(told) else ()
        return Answer(tags, tuple(np.exp(told.max(-1)).tolist()) if len(told) else ())
    (x, _), *_ = own
    if config.question == "regression":
        return Answer(float(x[0]) * config.spread + config.center)
    names = config.labels if config.question == "classification" else example.texts[1:]
    order = np.argsort(-x[: len(names)], kind="stable").tolist()
    others = tuple((names[i], float(np.exp(x[i]))) for i in order)
    said = names[order[0]] if config.question == "classification" else order[0]
    return Answer(said, others[0][1], others)


def _best_span(document: str, windows: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> Answer:
    """The stretch of at most 30 tokens that most likely begins and ends an answer, over all windows."""
    windows = [(x, places) for x, places in windows if len(places)]
    if not windows:
        return Answer("", 0.0, (), (0, 0))
    every = np.concatenate([x for x, _ in windows])
    whole = np.log(np.exp(every - every.max(0)).sum(0)) + every.max(0)
    best = (-np.inf, 0, 0)
    for x, places in windows:
        begins, ends = (x - whole).T
        padded = np.concatenate((ends, np.full(LONGEST_ANSWER, -np.inf)))
        scores = begins[:, None] + np.lib.stride_tricks.sliding_window_view(padded, LONGEST_ANSWER)[: len(begins)]
        first, more = np.unravel_index(int(scores.argmax()), scores.shape)
        found = (float(scores[first, more]), int(places[first, 0]), int(places[first + more, 1]))
        best = max(best, found, key=lambda each: each[0])
    score, start, end = best
    return Answer(document[start:end], float(np.exp(score)), (), (start, end))
