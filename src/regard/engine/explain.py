"""Attention on demand: what a model looked at while it said what it said.

Decoding takes the fast path and keeps no weights. Afterwards one teacher-forced pass over the chosen output, by the
reference kernel, gives every layer's and head's weights, whatever search found the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.attention.site import Site, Trace
from regard.errors import UserError
from regard.shapes import Padded

LIKELY = 5  # words that are told of each step


class Explainable(Protocol):
    """A model with a teacher-forced pass."""

    @property
    def start(self) -> int: ...

    def __call__(self, *given: Any) -> Any:
        """Logits (B, T, V) of the word after each of target (B, T), from a source if it has one, the target, a site."""
        ...


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence and its output: log_probs (T,) of the output's tokens, and by site the weights (H, T, S).

    Row t of a decoder's map is the step that said target token t. Sites are "encoder.0.self", "decoder.0.self",
    "decoder.0.cross" and so on; a recurrent decoder has one, "decoder.cross".
    """

    source: list[int]
    target: list[int]
    log_probs: Tensor
    likely: list[list[tuple[int, float]]]
    """At each step the likeliest words, with their probabilities."""
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


@torch.no_grad()
def explain_text(model: Explainable, tokens: Sequence[int], trace: Trace | None = None) -> Explanation:
    """Of a model without a source: what each step looked at that said the tokens after the first."""
    trace = trace or Trace()
    logits = model(torch.tensor([tokens[:-1]]), Site(trace=trace))
    said = list(tokens[1:])
    maps = {path: weights[0] for path, weights in trace.maps().items()}
    return Explanation([], said, *_told(logits[0], said), maps, tokens[0])


@torch.no_grad()
def explain(
    model: Explainable, source: Padded, outputs: Sequence[Sequence[int]], trace: Trace | None = None
) -> list[Explanation]:
    """For each sentence of a batch and its output (tokens as a search gives them, or any others)."""
    if len(outputs) != len(source):
        raise UserError(f"{len(outputs)} outputs for {len(source)} sources; give one for each")
    target, trace = Padded.of(outputs), trace or Trace()
    logits = model(source, _shifted(model.start, target.tokens), Site(trace=trace))
    maps = trace.maps()
    told = []
    for i, (words, said) in enumerate(zip(source.lists(), target.lists(), strict=True)):
        own = {path: _trim(path, weights[i], len(words), len(said)) for path, weights in maps.items()}
        told.append(Explanation(words, said, *_told(logits[i, : len(said)], said), own, model.start))
    return told


def saliency(model: Explainable, told: Explanation) -> Tensor:
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


def _told(logits: Tensor, said: Sequence[int]) -> tuple[Tensor, list[list[tuple[int, float]]]]:
    """Log-probabilities of what was said, and at each step the likeliest words with their probabilities."""
    log_probs = logits.log_softmax(-1)
    top = log_probs.topk(min(LIKELY, log_probs.shape[-1]))
    pairs = zip(top.indices.tolist(), top.values.exp().tolist(), strict=True)
    likely = [list(zip(words, values, strict=True)) for words, values in pairs]
    return log_probs.gather(1, torch.tensor(said)[:, None])[:, 0], likely


def _trim(path: str, weights: Tensor, source: int, target: int) -> Tensor:
    """A batch's map without the padding of this sentence."""
    if path.startswith("encoder"):
        return weights[:, :source, :source]
    return weights[:, :target, : source if path.endswith("cross") else target]


def _membership(groups: Sequence[int]) -> Tensor:
    """0/1 matrix (tokens, words) of which piece belongs to which word; words in order of first appearance."""
    order = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return torch.nn.functional.one_hot(torch.tensor([order[group] for group in groups]), len(order))
