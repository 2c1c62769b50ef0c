"""What all models that write word after word share: the step of a Stepper, and prefixes that are read at once."""

from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.site import Site, Trace
from regard.decode.stepper import State, Step
from regard.nn.embed import OutputHead
from regard.shapes import Padded


class WriterState(State, Protocol):
    """A state that knows whether its steps shall tell where they look."""

    @property
    def watch(self) -> bool: ...


S = TypeVar("S", bound=WriterState)


class Writer(nn.Module, Generic[S]):
    """A family says how to `advance`, and has the step from here."""

    head: OutputHead
    longest: int | None = None  # tokens that it has positions for, if there is an end to them
    watched: str | None  # the site whose attention tells what a step looked at
    prompted = False  # whether a batch is of prompts to go on with, and not of sources

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.start, self.end = config, config.start, config.end

    def advance(self, tokens: Tensor, state: S, site: Site = Site()) -> tuple[Tensor, S]:
        """Vectors (N, T, C) for more tokens (N, T), and the state after them."""
        raise NotImplementedError  # abstract

    def read(self, prefix: Padded, state: Any) -> S:
        """The state after all but the last token of each prefix; here, of a state with a past, in one pass over rows
        that end together, where `starts` says where each begins if they do not begin together."""
        width = prefix.tokens.shape[1]
        starts = width - prefix.lengths
        index = torch.arange(width, device=starts.device)[None] - starts[:, None]
        tokens = prefix.tokens.gather(1, index.clamp(min=0))
        past = replace(state.past, starts=starts if starts.any() else None)
        return self.advance(tokens[:, :-1], replace(state, past=past))[1]

    def step(self, tokens: Tensor, state: S) -> Step[S]:
        trace = Trace() if state.watch and self.watched else None
        x, state = self.advance(tokens[:, None], state, Site(trace=trace))
        log_probs = self.head(x[:, -1]).log_softmax(-1)
        attention = trace.maps()[self.watched][:, :, -1].mean(1) if trace and self.watched else None
        return Step(log_probs, state, attention)

    def after(self, prefix: Padded | None, state: S) -> S:
        """As `read`, where there may be nothing to read."""
        return state if prefix is None or prefix.tokens.shape[1] == 1 else self.read(prefix, state)


class LanguageModel(Writer[S]):
    """A writer without a source: what it goes on from is its own text."""

    prompted = True

    def nothing_yet(self, rows: int, *, watch: bool = False) -> S:
        """The state before the first token."""
        raise NotImplementedError  # abstract

    def forward(self, tokens: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the word after each of tokens (B, T)."""
        return self.head(self.advance(tokens, self.nothing_yet(len(tokens)), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None, *, watch: bool = False) -> S:
        """The batch counts rows; its prefixes are the prompts."""
        return self.after(prefix, self.nothing_yet(len(batch), watch=watch))
