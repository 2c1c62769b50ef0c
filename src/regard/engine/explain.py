"""Attention on demand: what a model looked at while it said what it said.

Decoding takes the fast path and keeps no weights. Afterwards one teacher-forced pass over the chosen output, by the
reference kernel, gives every layer's and head's weights, whatever search found the output.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.multihead import MultiheadAttention
from regard.attention.site import ACROSS, Axes, Site, Trace
from regard.engine.engine import Rows, Sources
from regard.errors import UserError
from regard.models.writer import LanguageModel, Seq2seq
from regard.shapes import Padded, Row

LIKELY = 5  # words that are told of each step
MOST = 3 << 26  # numbers that a pass may hold at once, of 4 bytes each: 0.8 GB
TOGETHER = 64  # pairs of a pass, at most
ROWS = 256  # steps whose probabilities are computed at once
Run = Callable[[Sources, Rows, Site], Any]  # a pass over sources and their outputs
Choices = list[list[tuple[int, float]]]  # at each step the likeliest words, with their probabilities


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence and its output: log_probs (T,) of the output's tokens, and by site the weights (H, T, S).

    `axes` name the sequences of a map's rows and columns: "source"; "target", of which row t is the step that said
    token t; and "taken", the token before, which that step was given.
    """

    source: Any  # a Row
    target: list[int]
    log_probs: Tensor
    likely: Choices
    maps: dict[str, Tensor]
    axes: dict[str, Axes]
    first: int = 0  # the token before the output's first

    @property
    def across(self) -> list[str]:
        """Sites where the target attends to the source, the last layer last."""
        return [path for path, axes in self.axes.items() if axes == ACROSS]

    def merged(self, path: str, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
        """A map by words: pieces with the same group number are one word (H, words, words).

        A word receives what its pieces receive together, and gives what they give on average, so rows still sum to 1.
        """
        weights, members = self.maps[path], list[Tensor]()
        for name, groups, size in (("rows", rows, weights.shape[1]), ("columns", columns, weights.shape[2])):
            if len(groups) != size:
                raise UserError(f"{len(groups)} group numbers for {size} {name} of {path}; give one for each token")
            order = {group: i for i, group in enumerate(dict.fromkeys(groups))}  # words by their first appearance
            members.append(F.one_hot(torch.tensor([order[group] for group in groups]), len(order)).to(weights))
        spread, gather = members  # of which piece belongs to which word: 0 or 1 (tokens, words)
        return (spread / spread.sum(0)).T @ weights @ gather


class Sizes:
    """How many numbers a traced pass holds, from a trial over one step of a source and of its output."""

    @torch.no_grad()
    def __init__(self, model: nn.Module, run: Run, source: Row, output: Sequence[int]) -> None:
        trace = Trace()
        logits = run([source[:1]], [output[:1]], Site(trace=trace))
        self.vocabulary = logits.shape[-1] if output else 0
        self.sites = [(weights.shape[1], *trace.axes[path]) for path, weights in trace.maps().items()]
        attentions = [part for part in model.modules() if isinstance(part, MultiheadAttention)]
        vectors = [part.config.head_width for part in attentions if part.score.scale(1) is None]  # one for each pair
        self.beside = 1 + 2 * max(vectors, default=1)  # scores, and scores with a mask

    def numbers(self, source: int, target: int) -> tuple[int, int]:
        """Every head's weights, what the reference kernel needs beside those of the largest site, and the logits; and
        how many of them are the last site's weights."""
        lengths = {"source": source, "target": target, "taken": target}
        maps = [heads * lengths[rows] * lengths[columns] for heads, rows, columns in self.sites] or [0]
        return sum(maps) + self.beside * max(maps) + (target + ROWS) * self.vocabulary, maps[-1]


def batches(model: Any, sources: Sources, outputs: Rows) -> Iterator[slice]:
    """Pairs in order, as many in each pass as take a quarter of what it may hold, and at least one."""
    start = 0
    while start < len(sources):
        stop = min(start + TOGETHER, len(sources))
        sizes = Sizes(model, partial(_run, model, model.start), sources[start], outputs[start])
        while stop > start + 1:
            source, target = (max(map(len, rows[start:stop])) for rows in (sources, outputs))
            if (stop - start) * sizes.numbers(source, target)[0] <= MOST // 4:
                break
            stop = (start + stop) // 2
        yield slice(start, stop)
        start = stop


@torch.no_grad()
def likelihood(model: LanguageModel[Any], tokens: Sequence[int], last: int) -> tuple[Tensor, Choices]:
    """Of the last tokens of a text: log-probabilities, and at each step the likeliest words; nothing is traced."""
    return _told(model(torch.tensor([tokens[:-1]]))[0, -last:], tokens[-last:])


def explain_source(
    model: nn.Module, read: Callable[[Sources, Site], Any], source: Row, shown: int | None = None
) -> Explanation:
    """Of a model without an output, by its pass over sources: what each step of this one looked at."""
    (explanation,) = explain(model, [source], [[]], shown=shown, first=0, run=lambda rows, _, site: read(rows, site))
    if not explanation.maps:
        raise UserError("this model has no attention to look at; train one with attention")
    return explanation


@torch.no_grad()
def explain(
    model: Any, sources: Sources, outputs: Rows, trace: Trace | None = None, shown: int | None = None,
    *, first: int | None = None, run: Run | None = None,
) -> list[Explanation]:  # fmt: skip
    """For each source of a batch and its output (tokens as a search gives them, or any others); the sources of a model
    that has none are empty, and its outputs preceded by `first`. A pass that would hold more than MOST numbers, or of
    which the last map has more than the `shown` that somebody will look at, is refused before it is run."""
    if len(outputs) != len(sources):
        raise UserError(f"{len(outputs)} outputs for {len(sources)} sources; give one for each")
    trace, first, explanations = trace or Trace(), model.start if first is None else first, []
    run = run or partial(_run, model, first)
    source, target = max(map(len, sources)), max(map(len, outputs))
    held, last = Sizes(model, run, sources[0], outputs[0]).numbers(source, target)
    counts = {"source": source, "output": target}
    sides = " and ".join(f"{count:,} tokens of the {side}" for side, count in counts.items() if count)
    if (held := held * len(sources)) > MOST:
        raise UserError(f"{sides} need {held:,} numbers to be looked at, more than {MOST:,}; take shorter texts")
    if shown is not None and last > shown:
        raise UserError(f"{sides} have a map of {last:,} weights; at most {shown:,} are shown; take shorter texts")
    logits, maps, axes = run(sources, outputs, Site(trace=trace)), trace.maps(), trace.axes
    for i, (row, output) in enumerate(zip(sources, outputs, strict=True)):
        steps = _told(logits[i, : len(output)], output) if output else (torch.zeros(0), Choices())
        lengths = {"source": len(row), "target": len(output), "taken": len(output)}
        own = {path: maps[path][i, :, : lengths[rows], : lengths[columns]] for path, (rows, columns) in axes.items()}
        explanations.append(Explanation(row, list(output), *steps, own, axes, first))
    return explanations


def _run(model: Any, first: int, sources: Sources, outputs: Rows, site: Site) -> Tensor:
    """Logits of a model that writes, after a source or, where these are empty, alone."""
    target = Padded.of(outputs).tokens
    taken = torch.cat((torch.full_like(target[:, :1], first), target[:, :-1]), 1)
    logits: Tensor = model(Padded.of(sources), taken, site) if len(sources[0]) else model(taken, site)
    return logits


def saliency(model: Seq2seq[Any] | LanguageModel[Any], told: Explanation) -> Tensor:
    """Gradient times input: by what share each word that was read moved each word that was said (T, S).

    For a model without a source these are the words before, (T, T), from what the first step took.
    """
    trace = Trace(inputs={})
    with torch.enable_grad():
        logits = _run(model, told.first, [told.source], [told.target], Site(trace=trace))
        assert trace.inputs is not None
        read = trace.inputs["source" if len(told.source) else "text"]
        said = logits[0].log_softmax(-1).gather(1, torch.tensor(told.target)[:, None])[:, 0]
        rows = [torch.autograd.grad(word, read, retain_graph=True)[0][0] for word in said]
    moved = torch.stack([(row * read[0].detach()).sum(-1).abs() for row in rows])
    return moved / moved.sum(-1, keepdim=True).clamp(min=1e-30)


def _told(logits: Tensor, said: Sequence[int]) -> tuple[Tensor, Choices]:
    """Log-probabilities of what was said, and at each step the likeliest words with their probabilities."""
    found, likely = list[Tensor](), Choices()
    for some, words in zip(logits.split(ROWS), torch.tensor(said).split(ROWS), strict=True):
        log_probs = some.log_softmax(-1)
        top = log_probs.topk(min(LIKELY, log_probs.shape[-1]))
        pairs = zip(top.indices.tolist(), top.values.exp().tolist(), strict=True)
        likely += [list(zip(*both, strict=True)) for both in pairs]
        found.append(log_probs.gather(1, words[:, None])[:, 0])
    return torch.cat(found), likely
