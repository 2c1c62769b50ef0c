"""What encoder-decoders share: word tables that may be one, the full pass, and the steps of a Stepper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.site import Site, Trace
from regard.decode.stepper import State, Step
from regard.errors import UserError
from regard.models.config import Seq2seqConfig
from regard.nn.embed import OutputHead, word_table
from regard.shapes import Padded


class Seq2seqState(State, Protocol):
    """A state that knows whether its steps shall tell where they look."""

    @property
    def watch(self) -> bool: ...


S = TypeVar("S", bound=Seq2seqState)


@dataclass(frozen=True, eq=False)
class Tables:
    """The three word tables of an encoder-decoder, of which some may be the same object."""

    source: nn.Parameter
    target: nn.Parameter
    output: nn.Parameter

    @staticmethod
    def of(config: Seq2seqConfig, width: int) -> Tables:
        target = word_table(config.target_vocabulary, width)
        source = target if config.tied == "all" else word_table(config.source_vocabulary, width)
        output = word_table(config.target_vocabulary, width) if config.tied == "none" else target
        return Tables(source, target, output)


class Seq2seq(nn.Module, Generic[S]):
    """An encoder-decoder: a family says how to `encode`, `advance` and `read`, and has the rest from here."""

    head: OutputHead
    watched: str | None  # the site whose attention tells what a step looked at

    def __init__(self, config: Seq2seqConfig) -> None:
        super().__init__()
        self.start, self.end = config.start, config.end

    def encode(self, source: Padded, site: Site = Site(), *, watch: bool = False) -> S:
        """Read the sources: the state before the first word."""
        raise NotImplementedError  # abstract

    def advance(self, tokens: Tensor, state: S, site: Site = Site()) -> tuple[Tensor, S]:
        """The decoder's vectors (N, T, C) for more tokens (N, T), and the state after them."""
        raise NotImplementedError  # abstract

    def read(self, prefix: Padded, state: S) -> S:
        """The state after all but the last token of each prefix."""
        raise NotImplementedError  # abstract

    def forward(self, source: Padded, target: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), which begins with `start`."""
        return self.head(self.advance(target, self.encode(source, site), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None, *, watch: bool = False) -> S:
        state = self.encode(batch, watch=watch)
        return state if prefix is None or prefix.tokens.shape[1] == 1 else self.read(prefix, state)

    def step(self, tokens: Tensor, state: S, *, candidates: Tensor | None = None) -> Step[S]:
        trace = Trace() if state.watch and self.watched else None
        x, state = self.advance(tokens[:, None], state, Site(trace=trace))
        log_probs = self.head(x[:, -1], candidates).log_softmax(-1)
        attention = trace.maps()[self.watched][:, :, -1].mean(1) if trace and self.watched else None
        return Step(log_probs, state, attention)


def check_source(source: Padded) -> None:
    shortest, longest = torch.aminmax(source.lengths)
    if shortest < 1 or longest > source.tokens.shape[1]:
        raise UserError(
            f"source lengths {int(shortest)} to {int(longest)} in rows of {source.tokens.shape[1]}; use 1 to that"
        )
