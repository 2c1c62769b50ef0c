"""Embeddings in, scores over the vocabulary out; the two may share one table."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.site import Site
from regard.errors import UserError
from regard.nn.front import Front
from regard.shapes import Padded


def word_table(vocabulary: int, width: int) -> nn.Parameter:
    """One vector for each word; an embedding and an output head may hold the same table [Press+ 2017]."""
    return nn.Parameter(nn.init.kaiming_uniform_(torch.empty(vocabulary, width), a=1))


class Embedding(Front):
    """The front of text: of each token a row of the table, scaled by sqrt(C) where asked [Vaswani+ 2017, section 3.4],
    with the part of the text that it is in [Devlin+ 2019, figure 2]."""

    def __init__(
        self, table: nn.Parameter, *, segments: nn.Parameter | None = None, scaled: bool = False, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self.table = table
        self.segment_table = segments
        self.scale = table.shape[1] ** 0.5 if scaled else 1.0

    def vectors(self, batch: Padded) -> Tensor:
        x = self._rows(batch.tokens)
        if self.segment_table is None:
            return x
        parts = batch.segments if len(self.segment_table) > 1 else None
        return x + (self.segment_table[0] if parts is None else F.embedding(parts, self.segment_table))

    def embed(self, tokens: Tensor, places: Tensor | None = None, site: Site = Site()) -> Tensor:
        """Tokens (N, T) that a decoder takes, whose ends are not known -> (N, T, C)."""
        return self.placed(self._rows(tokens), places, None, site)

    def _rows(self, tokens: Tensor) -> Tensor:
        if tokens.dim() != 2 or tokens.numel() == 0:
            raise UserError(f"tokens of shape {tuple(tokens.shape)}; they need (sentences, steps), each at least 1")
        low, high = torch.aminmax(tokens)  # out-of-range ids crash with no word on some devices; say which one
        if low < 0 or high >= len(self.table):
            odd = int(low if low < 0 else high)
            raise UserError(f"token id {odd} is outside {len(self.table)} words; use the model's tokenizer")
        return F.embedding(tokens, self.table) * self.scale


class OutputHead(nn.Module):
    """Vectors (.., C) -> logits (.., V)."""

    def __init__(self, table: nn.Parameter, *, bias: bool) -> None:
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(len(table))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table, self.bias)
