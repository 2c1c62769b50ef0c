"""Embeddings in, scores over the vocabulary out; the two may share one table."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.position import Position
from regard.attention.site import Site
from regard.errors import UserError


def word_table(vocabulary: int, width: int) -> nn.Parameter:
    """One vector for each word; an embedding and an output head may hold the same table [Press+ 2017]."""
    return nn.Parameter(nn.init.kaiming_uniform_(torch.empty(vocabulary, width), a=1))


class Embedding(nn.Module):
    """Token ids (B, T) -> vectors (B, T, C): a row of the table, scaled by sqrt(C) where asked
    [Vaswani+ 2017, section 3.4], with its position and the part of the text it is in [Devlin+ 2019, figure 2], normed
    where asked (as BART and BERT do), dropped out."""

    def __init__(
        self,
        table: nn.Parameter,
        *,
        position: Position | None = None,
        segments: nn.Parameter | None = None,
        scaled: bool = False,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.table = table
        self.segment_table = segments
        self.position = position or Position()
        self.norm = norm or nn.Identity()
        self.scale = table.shape[1] ** 0.5 if scaled else 1.0
        self.dropout = dropout

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        lengths: Tensor | None = None,
        site: Site = Site(),
        segments: Tensor | None = None,
    ) -> Tensor:
        """At `positions` (1|B, T), if they are to be told, in `segments` (B, T), by default the first."""
        if tokens.dim() != 2 or tokens.numel() == 0:
            raise UserError(f"tokens of shape {tuple(tokens.shape)}; they need (sentences, steps), each at least 1")
        low, high = torch.aminmax(tokens)  # out-of-range ids crash with no word on some devices; say which one
        if low < 0 or high >= len(self.table):
            odd = int(low if low < 0 else high)
            raise UserError(f"token id {odd} is outside {len(self.table)} words; use the model's tokenizer")
        x = F.embedding(tokens, self.table) * self.scale
        if self.segment_table is not None:
            x = x + (self.segment_table[0] if segments is None else F.embedding(segments, self.segment_table))
        if positions is not None:
            x = self.position.embed(x, positions, lengths)
        x = self.norm(x) if site.trace is None else site.trace.words(site.path, self.norm(x))
        return site.dropout(x, self.dropout)


class OutputHead(nn.Module):
    """Vectors (.., C) -> logits (.., V)."""

    def __init__(self, table: nn.Parameter, *, bias: bool) -> None:
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(len(table))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table, self.bias)
