"""Attention on demand: what a model looked at while it said what it said.

Decoding takes the fast path and keeps no weights. Afterwards one teacher-forced pass over the chosen output, by the
reference kernel, gives every layer's and head's weights, whatever search found the output.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.multihead import MultiheadAttention
from regard.attention.site import Site, Trace
from regard.engine.engine import Rows, Sources
from regard.errors import UserError
from regard.models.seq2seq import Seq2seq
from regard.models.writer import LanguageModel
from regard.nn.embed import OutputHead
from regard.shapes import Padded

LIKELY = 5  # words that are told of each step
MOST = 3 << 26  # numbers that a pass may hold at once, of 4 bytes each: 0.8 GB
TOGETHER = 64  # pairs of a pass, at most
ROWS = 256  # steps whose probabilities are computed at once
Choices = list[list[tuple[int, float]]]  # at each step the likeliest words, with their probabilities


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence and its output: log_probs (T,) of the output's tokens, and by site the weights (H, T, S).

    Row t of a decoder's map is the step that said target token t. Sites are "encoder.0.self", "decoder.0.self",
    "decoder.0.cross" and so on; a recurrent decoder has one, "decoder.cross".
    """

    source: list[int]
    target: list[int]
    log_probs: Tensor
    likely: Choices
    maps: dict[str, Tensor]
    first: int = 0
    """The token before the output's first."""

    def merged(self, path: str, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
        """A map by words: pieces with the same group number are one word (H, words, words).

        A word receives what its pieces receive together, and gives what they give on average, so rows still sum to 1.
        """
        weights = self.maps[path]
        for name, groups, size in (("rows", rows, weights.shape[1]), ("columns", columns, weights.shape[2])):
            if len(groups) != size:
                raise UserError(f"{len(groups)} group numbers for {size} {name} of {path}; give one for each token")
        gather = _membership(columns).to(weights)
        spread = _membership(rows).to(weights)
        return (spread / spread.sum(0)).T @ weights @ gather


def check_size(model: Any, source: int, target: int, rows: int = 1, shown: int | None = None) -> None:
    """Refuse a traced pass over so many tokens on each side before it is run: one that would hold more than MOST
    numbers, or whose last map has more than the `shown` that somebody will look at."""
    held, last = _numbers(model, source, target)
    counts = {"source": source, "output": target}
    sides = " and ".join(f"{count:,} tokens of the {side}" for side, count in counts.items() if count)
    if rows * held > MOST:
        raise UserError(f"{sides} need {rows * held:,} numbers to be looked at, more than {MOST:,}; take shorter texts")
    if shown is not None and last > shown:
        raise UserError(f"{sides} have a map of {last:,} weights; at most {shown:,} are shown; take shorter texts")


def batches(model: Any, sources: Sources, outputs: Rows) -> Iterator[slice]:
    """Pairs in order, as many in each pass as take a quarter of what it may hold, and at least one."""
    start = 0
    while start < len(sources):
        stop = min(start + TOGETHER, len(sources))
        while stop > start + 1:
            source, target = (max(map(len, rows[start:stop])) for rows in (sources, outputs))
            if (stop - start) * _numbers(model, source, target)[0] <= MOST // 4:
                break
            stop = (start + stop) // 2
        yield slice(start, stop)
        start = stop


def _numbers(model: Any, source: int, target: int) -> tuple[int, int]:
    """What a traced pass over a pair holds: every head's weights, what the reference kernel needs beside those of the
    site at work, and the logits; and how many of them are the last site's weights."""
    held = beside = last = 0
    for name, part in model.named_modules():
        if isinstance(part, MultiheadAttention):
            rows = source if "encoder" in name.split(".") else target
            last = part.config.num_heads * rows * (rows if name.endswith("self_attention") else source)
            width = 1 if part.score.scale(1) is not None else part.config.head_width  # a vector for each pair
            held, beside = held + last, max(beside, (1 + 2 * width) * last)  # scores, and scores with a mask
        elif isinstance(part, OutputHead) and name == "head":
            held += (target + ROWS) * len(part.table)
    return held + beside, last


@torch.no_grad()
def likelihood(model: LanguageModel[Any], tokens: Sequence[int], last: int) -> tuple[Tensor, Choices]:
    """Of the last tokens of a text: log-probabilities, and at each step the likeliest words; nothing is traced."""
    return _told(model(torch.tensor([tokens[:-1]]))[0, -last:], tokens[-last:])


@torch.no_grad()
def explain_text(model: LanguageModel[Any], tokens: Sequence[int], shown: int | None = None) -> Explanation:
    """Of a model without a source: what each step looked at that said the tokens after the first."""
    check_size(model, 0, len(tokens) - 1, shown=shown)
    trace, said = Trace(), list(tokens[1:])
    logits = model(torch.tensor([tokens[:-1]]), Site(trace=trace))
    maps = {path: weights[0] for path, weights in trace.maps().items()}
    return Explanation([], said, *_told(logits[0], said), maps, tokens[0])


@torch.no_grad()
def explain(
    model: Seq2seq[Any], source: Padded, outputs: Rows, trace: Trace | None = None, shown: int | None = None
) -> list[Explanation]:
    """For each sentence of a batch and its output (tokens as a search gives them, or any others)."""
    if len(outputs) != len(source):
        raise UserError(f"{len(outputs)} outputs for {len(source)} sources; give one for each")
    target, trace = Padded.of(outputs), trace or Trace()
    check_size(model, source.tokens.shape[1], target.tokens.shape[1], len(source), shown)
    logits = model(source, _shifted(model.start, target.tokens), Site(trace=trace))
    maps = trace.maps()
    told = []
    for i, (words, said) in enumerate(zip(source.lists(), target.lists(), strict=True)):
        own = {path: _trim(path, weights[i], len(words), len(said)) for path, weights in maps.items()}
        told.append(Explanation(words, said, *_told(logits[i, : len(said)], said), own, model.start))
    return told


def saliency(model: Seq2seq[Any] | LanguageModel[Any], told: Explanation) -> Tensor:
    """Gradient times input: by what share each word that was read moved each word that was said (T, S).

    For a model without a source these are the words before, (T, T), from what the first step took.
    """
    trace = Trace(inputs={})
    target = torch.tensor([told.target])
    given = [Padded.of([told.source])] if told.source else []
    with torch.enable_grad():
        logits = model(*given, _shifted(told.first, target), Site(trace=trace))
        assert trace.inputs is not None
        read = trace.inputs["source" if told.source else "text"]
        said = logits[0].log_softmax(-1).gather(1, target[0][:, None])[:, 0]
        rows = [torch.autograd.grad(word, read, retain_graph=True)[0][0] for word in said]
    moved = torch.stack([(row * read[0].detach()).sum(-1).abs() for row in rows])
    return moved / moved.sum(-1, keepdim=True).clamp(min=1e-30)


def _shifted(first: int, target: Tensor) -> Tensor:
    return torch.cat((torch.full_like(target[:, :1], first), target[:, :-1]), 1)


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


def _trim(path: str, weights: Tensor, source: int, target: int) -> Tensor:
    """A batch's map without the padding of this sentence."""
    if path.startswith("encoder"):
        return weights[:, :source, :source]
    return weights[:, :target, : source if path.endswith("cross") else target]


def _membership(groups: Sequence[int]) -> Tensor:
    """0/1 matrix (tokens, words) of which piece belongs to which word; words in order of first appearance."""
    order = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return torch.nn.functional.one_hot(torch.tensor([order[group] for group in groups]), len(order))
