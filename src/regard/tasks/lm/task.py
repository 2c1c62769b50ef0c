"""Language modelling: from running text to a model that goes on with it."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.site import Site
from regard.data.tokenizer import Tokenizer
from regard.models.config import RecurrentTextConfig
from regard.models.lstm import RecurrentText
from regard.models.writer import LanguageModel
from regard.nn.loss import SomeWords, cross_entropy
from regard.rng import Key
from regard.tasks.folder import Loaded
from regard.tasks.lm.config import LanguageRecipe
from regard.tasks.runnable import Tick, ignore
from regard.tasks.running_text import Ids, Text, TextTask, held_out, ids_for, tokenizer_for
from regard.tasks.task import Carry, Loss

Model = LanguageModel[Any]
ONWARD = 1024  # tokens that a carried state reads at once


def prepare(recipe: LanguageRecipe, folder: Path, base: Loaded | None = None) -> "LanguageModelling":
    """The text to train on, and what is held out of it."""
    data, train, tokenizer = recipe.data, recipe.train, tokenizer_for(recipe.data, folder)
    ids, held = ids_for(data, tokenizer, folder), held_out(data, tokenizer)
    sizes = {"context": data.context, "batch_tokens": train.batch_tokens, "sampled": train.sampled_softmax}
    apart, carry = data.separate_documents, isinstance(recipe.model, RecurrentTextConfig)
    return LanguageModelling(tokenizer, ids, held, apart=apart, carry=carry, **sizes)


@dataclass(frozen=True, eq=False)
class Window:
    """A batch: tokens (B, T + 1), of which each but the first is to be told from those before."""

    tokens: Tensor
    first: bool  # whether nothing precedes it


class LanguageModelling(TextTask[Model]):
    """Every token is told from those before it."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        ids: Ids,
        held: Text | None,
        *,
        apart: bool,
        carry: bool,
        sampled: int = 0,
        **sizes: int,
    ) -> None:
        super().__init__(ids, held, **sizes)
        self.tokenizer, self.apart, self.carry = tokenizer, apart, carry
        self.some = SomeWords(ids, tokenizer.vocabulary, sampled) if sampled else None
        self.stream = (len(ids) - 1) // self.rows  # the length of each, where a state is carried on
        end = tokenizer.end
        self.sizes = (tokenizer.vocabulary, end, end, self.context)  # in one stream, the end of a text begins the next

    def batches(self, seed: int, epoch: int) -> list[Ids]:
        """Where a state is carried on, in as many streams as rows, side by side; else all over the text."""
        if not self.carry:
            return super().batches(seed, epoch)
        firsts = np.arange(self.rows) * self.stream
        return [firsts + at for at in range(0, self.stream - self.context + 1, self.context)]

    def load(self, name: Ids) -> Window:
        index = name[:, None] + np.arange(self.context + 1)
        return Window(torch.from_numpy(self.ids[index].astype(np.int64)), int(name[0]) % self.stream == 0)

    def loss(self, model: Model, batch: Window, carry: Carry | None, key: Key | None) -> Loss:
        inputs, wanted = batch.tokens[:, :-1], batch.tokens[:, 1:]
        state = model.nothing_yet(len(inputs))
        if carry is not None and not batch.first:
            state = replace(state, hidden=carry["carry"])
        if self.apart:
            state = replace(state, segments=_documents(inputs, self.tokenizer.end))
        site = Site(key, losses={})
        x, state = model.advance(inputs, state, site)
        if self.some is not None and key is not None:
            total = self.some.lost(model.head, x.flatten(0, 1), wanted.flatten(), key.fold("words"))
        else:
            total = cross_entropy(model.head, x.flatten(0, 1), wanted.flatten())
        carried = {"carry": state.hidden.detach()} if self.carry else None
        return Loss.of(site, total, float(wanted.numel()), carried)

    def score(self, model: Model, text: Text) -> dict[str, float]:
        apart = self.tokenizer.end if self.apart else None
        found = perplexities(model, text, self.context, rows=self.rows, apart=apart)
        return {name: found[name] for name in ("loss", "per_character", "word_perplexity")}


def perplexities(
    model: Model, text: Text, context: int, tick: Tick = ignore, *, rows: int = 8, apart: int | None = None
) -> dict[str, float]:
    """By tokens, characters and words, line ends being words, as published figures have it."""
    lost, tokens = nats(model, text.ids, context, rows=rows, apart=apart, tick=tick), len(text.ids) - 1
    perplexity, of_words = (math.exp(min(lost / count, 700.0)) for count in (tokens, text.words))
    losses = {"loss": lost / tokens, "per_character": lost / text.characters}
    return {**losses, "perplexity": perplexity, "word_perplexity": of_words}


@torch.no_grad()
def nats(model: Model, ids: Ids, context: int, *, rows: int, apart: int | None = None, tick: Tick = ignore) -> float:
    """What is lost on all ids but the first: each is told from half a context before it at least, or, where a state is
    carried on, from all. After the id `apart`, nothing before it is seen."""
    if not isinstance(model, RecurrentText):
        return _windowed(model, ids, context, rows, apart, tick)
    state, lost = model.nothing_yet(1), 0.0
    for at in range(0, len(ids) - 1, ONWARD):
        tick(at)
        tokens = torch.from_numpy(ids[None, at : at + ONWARD + 1].astype(np.int64))
        x, state = model.advance(tokens[:, :-1], state)
        lost += float(cross_entropy(model.head, x[0], tokens[0, 1:]))
    return lost


def _windowed(model: Model, ids: Ids, context: int, rows: int, apart: int | None, tick: Tick) -> float:
    half, lost = max(1, context // 2), 0.0
    firsts = np.arange(0, max(1, len(ids) - 1 - context + half), half)
    for at in range(0, len(firsts), rows):
        tick(int(firsts[at]))
        starts = firsts[at : at + rows, None]
        index = starts + np.arange(context + 1)
        tokens = torch.from_numpy(ids[index.clip(max=len(ids) - 1)].astype(np.int64))
        old = (np.arange(context) < context - half) & (starts > 0)  # told by the window before
        new = torch.from_numpy(~old & (index[:, 1:] < len(ids)))
        state = model.nothing_yet(len(tokens))
        if apart is not None:
            state = replace(state, segments=_documents(tokens[:, :-1], apart))
        x, _ = model.advance(tokens[:, :-1], state)
        lost += float(cross_entropy(model.head, x[new], tokens[:, 1:][new]))
    return lost


def _documents(tokens: Tensor, end: int) -> Tensor:
    """The document of each token: an end mark opens the next."""
    return (tokens == end).cumsum(1)
