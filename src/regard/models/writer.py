"""What all models that write word after word share: the step of a Stepper, prefixes that are read at once, and, of
encoder-decoders, an encoder for any modality, word tables that may be one, and the full pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.site import Site
from regard.decode.stepper import State, Step
from regard.models.config import Seq2seqConfig
from regard.nn.embed import Embedding, Front, OutputHead, Steps, front_of, word_table
from regard.nn.recurrent import RecurrentLayers
from regard.nn.stack import Stack
from regard.shapes import Padded

S = TypeVar("S", bound=State)
Parts = Callable[[], dict[str, Any]]  # position, norm and dropout of a front, new ones for each


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


class Seq2seq(Writer[S]):
    """An encoder, which is a front and a trunk, and a decoder: a family says what its decoder keeps of the source
    (`begun`), how to `advance` and to `read`, and has the rest from here."""

    source_embedding: Front
    encoder: Stack | RecurrentLayers

    def encode(self, source: Padded, site: Site = Site()) -> S:
        """Read the sources: the state before the first token."""
        steps: Steps = self.source_embedding(source, site / "source")
        return self.begun(self.encoder.read(steps, site.over("source") / "encoder"))

    def begun(self, encoded: Steps) -> S:
        """The decoder's state before the first token."""
        raise NotImplementedError  # abstract

    def forward(self, source: Padded, target: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the token after each of target (B, T), which begins with `start`."""
        return self.head(self.advance(target, self.encode(source, site), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None) -> S:
        return self.after(prefix, self.encode(batch))


def fronts(config: Seq2seqConfig, width: int, parts: Parts, **how: Any) -> tuple[Front, Embedding, nn.Parameter]:
    """Of source and target, and the output's table; tables may be the same object."""
    target = word_table(config.target_vocabulary, width)
    output = word_table(config.target_vocabulary, width) if config.tied == "none" else target
    source = None if config.front else target if config.tied == "all" else word_table(config.source_vocabulary, width)
    return front_of(config.front, width, source, parts(), **how), Embedding(target, **parts(), **how), output
