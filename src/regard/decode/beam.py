"""Batched beam search, in tensors only."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decode.config import Beam, Hypothesis
from regard.decode.filters import apply_all
from regard.decode.stepper import S
from regard.decode.walk import Job


@dataclass(frozen=True, eq=False)
class Finished:
    """The best hypotheses that have ended, K for each of B sentences, best first; empty places have score -inf."""

    score: Tensor  # (B, K)
    log_prob: Tensor  # (B, K)
    length: Tensor  # (B, K)
    words: Tensor  # (B, K, longest)

    def add(self, score: Tensor, log_prob: Tensor, words: Tensor) -> "Finished":
        """With candidates (B, K) of one length, words (B, K, length); score -inf for those that have not ended."""
        size, longest = self.words.shape[1:]
        length = words.shape[2]
        best, place = torch.cat((self.score, score), 1).topk(size)
        padded = torch.nn.functional.pad(words, (0, longest - length))
        return Finished(
            best,
            torch.cat((self.log_prob, log_prob), 1).gather(1, place),
            torch.cat((self.length, torch.full_like(self.length, length)), 1).gather(1, place),
            torch.cat((self.words, padded), 1).gather(1, place[..., None].expand(-1, -1, longest)),
        )

    def select(self, index: Tensor) -> "Finished":
        return Finished(self.score[index], self.log_prob[index], self.length[index], self.words[index])

    def hypotheses(self, num_best: int) -> list[list[Hypothesis]]:
        columns = (self.words, self.length, self.log_prob, self.score)
        rows = zip(*(column[:, :num_best].tolist() for column in columns), strict=True)
        return [
            [
                Hypothesis(tokens=words[:length], log_prob=log_prob, score=score)
                for words, length, log_prob, score in zip(*row, strict=True)
                if score > -torch.inf
            ]
            for row in rows
        ]


@torch.no_grad()
def breadth_first(job: Job[S, Beam]) -> list[list[Hypothesis]]:
    """Beam search [Graves 2012; Wu+ 2016, section 7].

    At each step the 2K best continuations of a sentence's K hypotheses are taken: at most K of them can end, so K
    remain. Only those among the K best may end. A sentence is done when none of its hypotheses could come to be among
    those asked for by `ahead` more words, were they free (log-probabilities only fall); it then costs nothing further.
    """
    stepper, search, size, total = job.stepper, job.search, job.search.size, len(job.batch)
    state = stepper.begin(job.batch, job.prefix)
    tokens = job.first_tokens()
    everyone = torch.arange(total).repeat_interleave(size)
    state, tokens = state.select(everyone), tokens[everyone]
    active = [f.begin(total).select(everyone) for f in job.filters]

    rows = torch.arange(total)  # the sentence of each group of K still searching
    log_prob = torch.full((total, size), -torch.inf, dtype=torch.float64)
    log_prob[:, 0] = 0.0  # all K begin alike: let one speak
    words = torch.zeros(total * size, 0, dtype=torch.long)
    limits = job.limits()  # of each sentence still searching
    longest = int(limits.max())
    none, lengths = torch.full_like(log_prob, -torch.inf), torch.zeros(total, size, dtype=torch.long)
    finished = Finished(none, none, lengths, torch.zeros(total, size, longest, dtype=torch.long))
    results: list[list[Hypothesis]] = [[] for _ in range(total)]

    for length in range(1, longest + 1):
        step = stepper.step(tokens, state)
        log_probs = apply_all(active, step.log_probs, words)
        likeliest, next_words = log_probs.topk(min(2 * size, log_probs.shape[1]))  # of each hypothesis (BK, 2K)
        extended = (log_prob.view(-1, 1) + likeliest.double()).view(len(rows), -1)
        log_prob, place = extended.topk(min(2 * size, extended.shape[1]))  # of each sentence (B, 2K)
        origin = place // likeliest.shape[1] + torch.arange(len(rows))[:, None] * size
        word = next_words.view(len(rows), -1).gather(1, place)
        candidates = torch.cat((words[origin], word[..., None]), -1)  # (B, 2K, length)

        ends = word == stepper.end
        over = ends | limits.eq(length)[:, None]
        score = (log_prob / search.normaliser(length)).masked_fill(~over, -torch.inf)[:, :size]
        finished = finished.add(score, log_prob[:, :size], candidates[:, :size])

        log_prob, best = log_prob.masked_fill(ends, -torch.inf).topk(size)
        index, tokens = origin.gather(1, best), word.gather(1, best)
        words = candidates.gather(1, best[..., None].expand(-1, -1, length))
        state = step.state

        at_best = log_prob[:, 0] / search.best_normaliser(length, limits.double())
        hopeful = (at_best > finished.score[:, search.num_best - 1]) & (length < limits)
        if not hopeful.all():
            done, going = (~hopeful).nonzero()[:, 0], hopeful.nonzero()[:, 0]
            ended = finished.select(done).hypotheses(search.num_best)
            for sentence, hypotheses in zip(rows[done].tolist(), ended, strict=True):
                results[sentence] = hypotheses
            if len(going) == 0:
                break
            rows, limits, finished = rows[going], limits[going], finished.select(going)
            log_prob, index, tokens, words = log_prob[going], index[going], tokens[going], words[going]
        index, tokens, words = index.flatten(), tokens.flatten(), words.flatten(0, 1)
        state, active = state.select(index), [f.select(index) for f in active]
    return results
