"""Into and out of a trunk: a Front turns a batch of a modality (text, vectors and more) into the steps that it takes,
an OutputHead its vectors into scores over the vocabulary; of text, the two may share one table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.mask import Mask
from regard.attention.position import Position
from regard.attention.site import Site
from regard.errors import UserError
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class Steps:
    """Vectors x (B, T, C), which of them may be attended to, where they stand (1|B, T), and how many count (B,)."""

    x: Tensor
    mask: Mask
    places: Tensor
    lengths: Tensor
    state: Tensor | None = None
    """Of recurrent layers after the last step: (B, layers, directions, vectors, width)."""

    @staticmethod
    def of(x: Tensor, lengths: Tensor) -> "Steps":
        """In one row, with padding on the right."""
        return Steps(x, Mask.padding(lengths), torch.arange(x.shape[1], device=x.device)[None], lengths)

    @property
    def mean(self) -> Tensor:
        """Of each row's vectors (B, C)."""
        counted = torch.arange(self.x.shape[1], device=self.x.device)[None] < self.lengths[:, None]
        return (self.x * counted[..., None]).sum(1) / self.lengths[:, None]


class Front(nn.Module):
    """A modality says what the `vectors` of a batch are; they get their position, are normed where asked (as in BART
    and BERT), and dropped out."""

    def __init__(self, position: Position | None = None, norm: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.position = position or Position()
        self.norm = norm or nn.Identity()
        self.dropout = dropout

    def vectors(self, batch: Padded) -> Tensor:
        """(B, T, C)."""
        raise NotImplementedError  # abstract

    def forward(self, batch: Padded, site: Site = Site()) -> Steps:
        shortest, longest = torch.aminmax(batch.lengths)
        if shortest < 1 or longest > batch.values.shape[1]:
            lengths = f"{int(shortest)} to {int(longest)}"
            raise UserError(f"source lengths {lengths} in rows of {batch.values.shape[1]}; use 1 to that")
        steps = Steps.of(self.vectors(batch), batch.lengths)
        return replace(steps, x=self.placed(steps.x, steps.places, batch.lengths, site))

    def placed(self, x: Tensor, places: Tensor | None, lengths: Tensor | None, site: Site) -> Tensor:
        """Vectors (B, T, C) at places (1|B, T), if they are told, of sequences whose lengths (B,) may be unknown."""
        if places is not None:
            x = self.position.embed(x, places, lengths)
        x = self.norm(x) if site.trace is None else site.trace.words(site.path, self.norm(x))
        return site.dropout(x, self.dropout)


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


class Vectors(Front):
    """A linear map of each step (B, T, F) -> (B, T, C), such as what sensors measure."""

    def __init__(self, config: Any, width: int, **parts: Any) -> None:
        super().__init__(**parts)
        self.map = nn.Linear(config.features, width)

    def vectors(self, batch: Padded) -> Tensor:
        if batch.values.shape[2:] != (self.map.in_features,):
            shape = tuple(batch.values.shape)
            raise UserError(f"vectors of shape {shape}; this model reads (sequences, steps, {self.map.in_features})")
        return self.map(batch.values.to(self.map.weight.dtype))


class OutputHead(nn.Module):
    """Vectors (.., C) -> logits (.., V)."""

    def __init__(self, table: nn.Parameter, *, bias: bool) -> None:
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(len(table))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table, self.bias)


def front_of(settings: Any, width: int, table: nn.Parameter | None, parts: dict[str, Any], **text: Any) -> Front:
    """From a batch to steps (B, T, C): of text, which has a `table` and no settings here, or of another modality;
    `parts` are position, norm and dropout."""
    if settings is None:
        assert table is not None, "text needs a table"
        return Embedding(table, **parts, **text)
    return FRONTS[settings.kind](settings, width, **parts)


FRONTS: dict[str, Callable[..., Front]] = {"vectors": Vectors}
