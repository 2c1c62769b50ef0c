"""Readers: a model of text with a head that answers, as BERT [Devlin+ 2019, section 4] and GPT [Radford+ 2018,
section 3.2] are tuned to a task."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig
from regard.attention.mask import Mask
from regard.attention.multihead import MultiheadAttention
from regard.attention.site import Site
from regard.models.config import ReaderConfig
from regard.models.elmo import Mix
from regard.nn.config import RecurrentLayersConfig
from regard.nn.recurrent import RecurrentLayers
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class Seen:
    """What was read: a vector of each token (B, T, C), and of each text (B, C')."""

    x: Tensor
    summary: Tensor


class Reader(nn.Module):
    """A trunk and a head: of texts, or, for tags and spans, of tokens."""

    def __init__(self, config: ReaderConfig, trunk: Any) -> None:
        super().__init__()
        self.config, self.trunk = config, trunk
        self.upper = Upper(config) if config.trunk.mixed else None
        width = config.trunk.out_width if self.upper is None or config.of_tokens else self.upper.summary_width
        self.head = nn.Linear(width, config.outputs)
        self.start, self.end = config.start, config.end

    def see(self, texts: Padded, segments: Tensor, site: Site = Site()) -> Seen:
        """Texts, of which segments (B, T) are 1 in second parts and 0 elsewhere."""
        site = site.over("source")
        if self.upper is not None:
            return self.upper(self.trunk.layers(texts, site), texts, segments, site / "upper")
        if not self.config.trunk.both_ways:
            # What is told of a text stands at its last token; padding comes after it, and is not seen.
            x, _ = self.trunk.advance(texts.tokens, self.trunk.nothing_yet(len(texts)), site)
            return Seen(x, x[torch.arange(len(x), device=x.device), texts.lengths - 1])
        x = self.trunk(texts, segments if self.trunk.config.segments > 1 else None, site)
        if self.config.pooling == "first" and not self.config.of_tokens:
            return Seen(x, self.trunk.pooled(x))
        real = torch.arange(x.shape[1], device=x.device)[None] < texts.lengths[:, None]
        return Seen(x, (x * real[..., None]).sum(1) / texts.lengths[:, None])

    def answer(self, seen: Seen, groups: Tensor | None = None, site: Site = Site()) -> Tensor:
        """Of texts (N, outputs), or of tokens (B, T, outputs); texts of a group (B,) are read as one, if symmetric."""
        x = seen.x if self.config.of_tokens else seen.summary
        if self.config.symmetric and groups is not None:
            x = x.new_zeros(int(groups[-1]) + 1, x.shape[1]).index_add(0, groups, x)
        return self.head((site / "head").dropout(x, self.config.dropout))

    def forward(self, texts: Padded, segments: Tensor, site: Site = Site()) -> Tensor:
        return self.answer(self.see(texts, segments, site), None, site)


class Upper(nn.Module):
    """What GLUE's baseline has above ELMo [Wang+ 2019, section 4]: a BiLSTM; attention from each part of a text to the
    other, or, of one text alone, to itself; a second BiLSTM; and the largest of each number over the tokens."""

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        width, self.pairs, self.dropout = config.trunk.out_width, config.pairs, config.dropout
        self.mix = Mix(config.trunk.num_layers + 1)
        recurrent = partial(RecurrentLayersConfig, width=width // 2, bidirectional=True)
        self.lower = RecurrentLayers(recurrent(input_width=width))
        self.attention = MultiheadAttention(AttentionConfig(width=width, num_heads=1, score="scaled_dot"))
        self.higher = RecurrentLayers(recurrent(input_width=2 * width))
        self.summary_width = (4 if self.pairs else 1) * width

    def forward(self, layers: list[Tensor], texts: Padded, segments: Tensor, site: Site) -> Seen:
        x = (site / "mix").dropout(self.mix(layers), self.dropout)
        x = self.lower(x, lengths=texts.lengths).x
        mask = Mask.padding(texts.lengths)
        if self.pairs:
            mask = mask & Mask.segments(segments, 1 - segments)
        looked = self.attention(x, self.attention.project_kv(x), mask=mask, site=site / "attention")
        x = self.higher((site / "looked").dropout(torch.cat((x, looked), -1), self.dropout), lengths=texts.lengths).x
        real = torch.arange(x.shape[1], device=x.device)[None] < texts.lengths[:, None]
        if not self.pairs:
            return Seen(x, _largest(x, real))
        u, v = (_largest(x, real & (segments == part)) for part in (0, 1))
        return Seen(x, torch.cat((u, v, (u - v).abs(), u * v), -1))


def _largest(x: Tensor, where: Tensor) -> Tensor:
    """Of each number of x (B, T, C), over the tokens where (B, T) says so; 0 where it nowhere does."""
    return x.masked_fill(~where[..., None], -torch.inf).amax(1).nan_to_num(neginf=0.0)
