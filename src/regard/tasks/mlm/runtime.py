"""An encoder alone, ready to fill blanks and to make vectors of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.site import Site, Trace
from regard.data.tokenizer import MASK
from regard.engine.explain import Explanation, check_size
from regard.errors import UserError
from regard.look.look import Look
from regard.shapes import Padded
from regard.tasks.runnable import Runnable, as_given, check_silent, ids_of, listed


@dataclass(frozen=True)
class Filled:
    """A text without blanks, and for each blank the likeliest words with their probabilities."""

    text: str
    blanks: list[list[tuple[str, float]]]


class Encoder(Runnable):
    """An encoder: `model("The [MASK] barks")` fills blanks, `model.vectors(texts)` makes vectors."""

    def __call__(self, texts: str | Sequence[str]) -> Filled | list[Filled]:
        found = self.fill(listed(texts))
        return found[0] if isinstance(texts, str) else found

    def attend(self, text: str, target: str | None = None) -> Look:
        check_silent(target)
        return self.look(self.explain(text))

    def read(self, text: str) -> list[int]:
        """As the model reads a text; of one that is too long, the beginning."""
        mask, ids = [self.model.mask], list[int]()
        for number, part in enumerate([text] if mask == [None] else text.split(MASK)):
            spaced = number == 0 or part[:1].isspace()
            found = self.tokenizer.encode([part.strip()], spaced=spaced)[0] if part.strip() else []
            ids += [*(mask if number else []), *found]
        return [self.model.start, *ids[: self.max_length - 2], self.model.end]

    def is_long(self, text: str) -> bool:
        """Whether not all of it is read."""
        return len(self.read(text)) == self.max_length

    @torch.no_grad()
    def fill(self, texts: Sequence[str], num_best: int = 1, tick: Callable[[int], None] | None = None) -> list[Filled]:
        """Each blank by its likeliest word, all at once."""
        self.check_guesses()
        texts = listed(texts)
        rows, found, done = [self.read(text) for text in texts], [Filled("", [])] * len(texts), 0
        for members, batch in self.batches(rows):
            blank = batch.tokens == self.model.mask
            probable = self.model.guess(self.model(batch)[blank]).softmax(-1).topk(num_best)
            words = [[self.tokenizer.decode([i]).strip() for i in row] for row in probable.indices.tolist()]
            guesses = iter(list(zip(*both, strict=True)) for both in zip(words, probable.values.tolist(), strict=True))
            for i, count in zip(members, blank.sum(1).tolist(), strict=True):
                own = [next(guesses) for _ in range(count)]
                found[i] = Filled(_joined(texts[i], [guess[0][0] for guess in own]), own)
            done += len(members)
            if tick is not None:
                tick(done)
        return found

    @torch.no_grad()
    def vectors(self, texts: Sequence[str], tick: Callable[[int], None] | None = None) -> Tensor:
        """Of length 1 (N, C): the mean of a text's tokens in the last layer [Reimers+ 2019], or the first of them."""
        texts = listed(texts)
        found, done = torch.zeros(len(texts), self.model.config.out_width), 0
        for members, batch in self.batches([self.read(text) for text in texts]):
            x = self.model(batch)
            counts = torch.ones_like(batch.lengths) if self.model.config.pooling == "first" else batch.lengths
            pooled = torch.arange(x.shape[1])[None] < counts[:, None]
            found[members] = F.normalize((x * pooled[..., None]).sum(1) / counts[:, None], dim=-1)
            done += len(members)
            if tick is not None:
                tick(done)
        return found

    @torch.no_grad()
    def logits(self, ids: Any) -> Tensor:
        """Of the word at each of ids: (B, T, V), or (T, V) of one row."""
        self.check_guesses()
        rows, alone = ids_of(ids, self.model.config.vocabulary)
        return as_given(self.model.guess(self.model(rows)), alone)

    @torch.no_grad()
    def explain(self, text: str) -> Explanation:
        """What each token looked at."""
        trace, ids = Trace(), self.read(text)
        check_size(self.model, len(ids), 0)
        self.model(Padded.of([ids]), None, Site(trace=trace))
        maps = {path: weights[0] for path, weights in trace.maps().items()}
        if not maps:
            raise UserError("this model has no attention to look at; train one with attention")
        return Explanation(ids, [], torch.zeros(0), [], maps)

    def check_guesses(self) -> None:
        """Raise for a model that makes vectors only."""
        if self.model.guess is None:
            raise UserError("this model makes vectors and guesses no words; use --vectors, or .vectors(texts)")


def _joined(text: str, words: Sequence[str]) -> str:
    first, *rest = text.split(MASK)
    filled = [word + part for word, part in zip(words, rest, strict=False)]
    return first + "".join(filled) + "".join(MASK + part for part in rest[len(filled) :])
