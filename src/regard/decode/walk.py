"""What a search is asked to do; and the searches that go word by word, without looking back: greedy and sampling."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.decode.config import Hypothesis, Sample, Search
from regard.decode.filters import Filter, apply_all
from regard.decode.stepper import S, Stepper
from regard.rng import Key, uniforms
from regard.shapes import Padded

How = TypeVar("How", bound=Search, covariant=True)
# From log-probabilities (N, V), the rows' sentences (N,) and the step to one word for each row (N,).
Choice = Callable[[Tensor, Tensor, int], Tensor]


@dataclass(frozen=True, eq=False)
class Job(Generic[S, How]):
    """A batch of sources for a model, how to search, and what holds for this batch."""

    stepper: Stepper[S]
    batch: Any
    search: How
    filters: Sequence[Filter] = ()
    prefix: Padded | None = None  # what every output begins with, read before the first step
    sentences: Sequence[int] | None = None  # the members' numbers within a larger job

    def limits(self) -> Tensor:
        """Tokens that each sentence's output may have (B,)."""
        longest = getattr(self.stepper, "longest", None)  # that its positions allow
        lengths = self.batch.lengths.numpy() if isinstance(self.batch, Padded) else None
        read = 1 if self.prefix is None else self.prefix.lengths.numpy()  # the start token alone
        return torch.from_numpy(self.search.limits(len(self.batch), lengths, longest, read))

    def first_tokens(self) -> Tensor:
        """The tokens that the first step takes (B,)."""
        if self.prefix is not None:
            return self.prefix.tokens.gather(1, self.prefix.lengths[:, None] - 1)[:, 0]
        return torch.full((len(self.batch),), self.stepper.start)


@torch.no_grad()
def walk(job: Job[S, Search], choose: Choice) -> list[list[Hypothesis]]:
    """Steps until every row has ended; a row that has ended is dropped and costs nothing further."""
    stepper, search, total = job.stepper, job.search, len(job.batch)
    state = stepper.begin(job.batch, job.prefix)
    tokens = job.first_tokens()
    active = [f.begin(total) for f in job.filters]
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
            active = [f.select(index) for f in active]
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

    def draw(log_probs: Tensor, rows: Tensor, step: int) -> Tensor:
        """The word at which the cumulated probability, likeliest first, passes a uniform number."""
        number = torch.from_numpy(uniforms(Key(job.search.seed, ("sample",)), numbers[rows.numpy()], step))
        ordered, words = truncate(log_probs, job.search)
        reached = ordered.double().softmax(-1).cumsum(-1)
        # Rounding may leave the last sum below 1; never draw a word of probability 0 for it.
        place = (reached <= number[:, None] * reached[:, -1:]).sum(-1)
        place = place.minimum((ordered > -torch.inf).sum(-1) - 1)
        return words.gather(1, place[:, None])[:, 0]

    return walk(job, draw)


def truncate(log_probs: Tensor, search: Sample) -> tuple[Tensor, Tensor]:
    """Log-probabilities, likeliest first, after temperature, top-k and top-p, and the words they belong to."""
    size = log_probs.shape[-1] if search.top_k is None else min(search.top_k, log_probs.shape[-1])
    ordered, words = (log_probs / search.temperature).topk(size, dim=-1)
    if search.top_p < 1.0:
        probs = ordered.softmax(-1)
        before = probs.cumsum(-1) - probs  # the likeliest word always stays: nothing is before it
        ordered = ordered.masked_fill(before >= search.top_p, -torch.inf)
    return ordered, words
