"""What encoder-decoders share: word tables that may be one, and the full pass."""

import torch
from torch import Tensor, nn

from regard.attention.site import Site
from regard.errors import UserError
from regard.models.config import Seq2seqConfig
from regard.models.writer import S, Writer
from regard.nn.embed import word_table
from regard.shapes import Padded


def word_tables(config: Seq2seqConfig, width: int) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """Of source, target and output; some may be the same object."""
    target = word_table(config.target_vocabulary, width)
    source = target if config.tied == "all" else word_table(config.source_vocabulary, width)
    output = word_table(config.target_vocabulary, width) if config.tied == "none" else target
    return source, target, output


class Seq2seq(Writer[S]):
    """An encoder-decoder: a family says how to `encode`, `advance` and `read`, and has the rest from here."""

    def encode(self, source: Padded, site: Site = Site()) -> S:
        """Read the sources: the state before the first word."""
        raise NotImplementedError  # abstract

    def forward(self, source: Padded, target: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), which begins with `start`."""
        return self.head(self.advance(target, self.encode(source, site), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None) -> S:
        return self.after(prefix, self.encode(batch))


def check_source(source: Padded) -> None:
    shortest, longest = torch.aminmax(source.lengths)
    if shortest < 1 or longest > source.tokens.shape[1]:
        lengths = f"{int(shortest)} to {int(longest)}"
        raise UserError(f"source lengths {lengths} in rows of {source.tokens.shape[1]}; use 1 to that")
