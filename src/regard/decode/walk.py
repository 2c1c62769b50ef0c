"""One word after the other, without looking back: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.decode.config import Hypothesis, Sample, Search
from regard.decode.filters import apply_all, begin_all, select_all
from regard.decode.job import Job
from regard.decode.stepper import S
from regard.rng import Key, uniforms
from regard.shapes import Padded

# From log-probabilities (N, V), the rows' sentences (N,) and the step to one word for each row (N,).
Choice = Callable[[Tensor, Tensor, int], Tensor]


@torch.no_grad()
def walk(job: Job[S, Search], choose: Choice) -> list[list[Hypothesis]]:
    """Steps until every row has ended; a row that has ended is dropped and costs nothing further."""
    stepper, search, total = job.stepper, job.search, len(job.batch)
    state = stepper.begin(job.batch, job.prefix)
    tokens = job.first_tokens()
    active = begin_all(job.filters, total)
    rows = torch.arange(total)  # the sentence of each row still walking
    limits = job.limits()
    said = torch.zeros(total, int(limits.max()), dtype=torch.long)
    lengths = torch.zeros(total, dtype=torch.long)
    log_prob = torch.zeros(total, dtype=torch.float64)
    for length in range(said.shape[1]):
        step = stepper.step(tokens, state)
        log_probs = apply_all(active, step.log_probs, said[rows, :length])
        tokens = choose(log_probs, rows, length)
        said[rows, length] = tokens
        lengths[rows] = length + 1
        log_prob[rows] += log_probs.gather(1, tokens[:, None])[:, 0].double()
        state = step.state
        going = (tokens != stepper.end) & (length + 1 < limits[rows])
        if not going.all():
            index = going.nonzero()[:, 0]
            if len(index) == 0:
                break
            rows, tokens, state = rows[index], tokens[index], state.select(index)
            active = select_all(active, index)
    return [
        [Hypothesis(tokens=words, log_prob=p, score=p / search.normaliser(len(words)))]
        for words, p in zip(Padded(said, lengths).lists(), log_prob.tolist(), strict=True)
    ]


def greedy(job: Job[S, Search]) -> list[list[Hypothesis]]:
    """The likeliest word at each step."""
    return walk(job, lambda log_probs, rows, step: log_probs.argmax(-1))


def sample(job: Job[S, Sample]) -> list[list[Hypothesis]]:
    """A word drawn at each step, by a number that depends on (seed, sentence, step) alone, in any batch."""
    numbers = np.asarray(range(len(job.batch)) if job.sentences is None else job.sentences, dtype=np.int64)
    return walk(job, partial(_draw, job.search, numbers))


def _draw(
    search: Sample, numbers: np.ndarray[Any, np.dtype[np.int64]], log_probs: Tensor, rows: Tensor, step: int
) -> Tensor:
    """The word at which the cumulated probability, likeliest first, passes a uniform number."""
    number = torch.from_numpy(uniforms(Key(search.seed, ("sample",)), numbers[rows.numpy()], step))
    ordered, words = truncate(log_probs, search)
    reached = ordered.double().softmax(-1).cumsum(-1)
    # Rounding may leave the last sum below 1; never draw a word of probability 0 for it.
    place = (reached <= number[:, None] * reached[:, -1:]).sum(-1)
    place = place.minimum((ordered > -torch.inf).sum(-1) - 1)
    return words.gather(1, place[:, None])[:, 0]


def truncate(log_probs: Tensor, search: Sample) -> tuple[Tensor, Tensor]:
    """Log-probabilities, likeliest first, after temperature, top-k and top-p, and the words they belong to."""
    size = log_probs.shape[-1] if search.top_k is None else min(search.top_k, log_probs.shape[-1])
    ordered, words = (log_probs / search.temperature).topk(size, dim=-1)
    if search.top_p < 1.0:
        probs = ordered.softmax(-1)
        before = probs.cumsum(-1) - probs  # the likeliest word always stays: nothing is before it
        ordered = ordered.masked_fill(before >= search.top_p, -torch.inf)
    return ordered, words
