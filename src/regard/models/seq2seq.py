"""What encoder-decoders share: word tables that may be one, and the road from ids to log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.cache import fill_up
from regard.errors import UserError
from regard.models.config import Seq2seqConfig
from regard.nn.embed import word_table
from regard.shapes import Padded


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


def check_source(source: Padded) -> None:
    shortest, longest = torch.aminmax(source.lengths)
    if shortest < 1 or longest > source.tokens.shape[1]:
        raise UserError(
            f"source lengths from {int(shortest)} to {int(longest)} for {source.tokens.shape[1]} tokens a row; "
            "each sentence needs at least one token and at most the row"
        )


def push_right(prefix: Padded) -> tuple[Tensor, Tensor | None]:
    """Tokens with their padding moved to the left, so that all sentences end together, and where each starts."""
    steps = prefix.tokens.shape[1]
    starts = steps - prefix.lengths
    if not starts.any():
        return prefix.tokens, None
    index = torch.arange(steps, device=starts.device)[None] - starts[:, None]
    return prefix.tokens.gather(1, index.clamp(min=0)), starts


def join_rows(first: Tensor, second: Tensor, axis: int | None = None) -> Tensor:
    """The rows of both; along `axis` the shorter is filled up on the right."""
    if axis is not None:
        longest = max(first.shape[axis], second.shape[axis])
        first, second = (fill_up(x, longest, axis, "right") for x in (first, second))
    return torch.cat((first, second))
