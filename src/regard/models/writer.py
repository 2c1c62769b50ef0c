"""What all models that write word after word share: the step of a Stepper, and prefixes that are read at once."""

from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.site import Site
from regard.decode.stepper import State, Step
from regard.nn.embed import OutputHead
from regard.nn.front import Steps
from regard.shapes import Padded

S = TypeVar("S", bound=State)


class Writer(nn.Module, Generic[S]):
    """A family says how to `advance`, and has the step from here."""

    head: OutputHead
    longest: int | None = None  # tokens that it has positions for, if there is an end to them
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
        x, state = self.advance(tokens[:, None], state)
        return Step(self.head(x[:, -1]).log_softmax(-1), state)

    def after(self, prefix: Padded | None, state: S) -> S:
        """As `read`, where there may be nothing to read."""
        return state if prefix is None or prefix.tokens.shape[1] == 1 else self.read(prefix, state)


class LanguageModel(Writer[S]):
    """A writer without a source: what it goes on from is its own text."""

    prompted = True

    def nothing_yet(self, rows: int) -> S:
        """The state before the first token."""
        raise NotImplementedError  # abstract

    def hidden(self, batch: Padded, site: Site = Site()) -> Steps:
        """The last layer's vectors of whole texts; padding comes after them, and is not seen."""
        x, _ = self.advance(batch.tokens, self.nothing_yet(len(batch)), site)
        return Steps.of(x, batch.lengths)

    def forward(self, tokens: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the word after each of tokens (B, T)."""
        return self.head(self.advance(tokens, self.nothing_yet(len(tokens)), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None) -> S:
        """The batch counts rows; its prefixes are the prompts."""
        return self.after(prefix, self.nothing_yet(len(batch)))
