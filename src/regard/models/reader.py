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
from regard.nn.embed import Steps
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

    def see(self, batch: Padded, site: Site = Site()) -> Seen:
        """The vectors of each step, and of each row."""
        site = site.over("source")
        if self.upper is not None:
            return self.upper(self.trunk.layers(batch, site), batch, site / "upper")
        steps: Steps = self.trunk.hidden(batch, site)
        if not self.config.trunk.both_ways:  # of a decoder, its last step [Radford+ 2018, section 3.2]
            return Seen(steps.x, steps.x[torch.arange(len(steps.x), device=steps.x.device), steps.lengths - 1])
        first = self.config.pooling == "first" and not self.config.of_tokens
        return Seen(steps.x, self.trunk.pooled(steps.x) if first else steps.mean)

    def answer(self, seen: Seen, groups: Tensor | None = None, site: Site = Site()) -> Tensor:
        """Of texts (N, outputs), or of tokens (B, T, outputs); texts of a group (B,) are read as one, if symmetric."""
        x = seen.x if self.config.of_tokens else seen.summary
        if self.config.symmetric and groups is not None:
            x = x.new_zeros(int(groups[-1]) + 1, x.shape[1]).index_add(0, groups, x)
        return self.head((site / "head").dropout(x, self.config.dropout))

    def forward(self, batch: Padded, site: Site = Site()) -> Tensor:
        return self.answer(self.see(batch, site), None, site)


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

    def forward(self, layers: list[Tensor], batch: Padded, site: Site) -> Seen:
        lengths, segments = batch.lengths, batch.segments
        x = (site / "mix").dropout(self.mix(layers), self.dropout)
        x, mask = self.lower(x, lengths=lengths).x, Mask.padding(lengths)
        if segments is not None and self.pairs:
            mask = mask & Mask.segments(segments, 1 - segments)
        looked = self.attention(x, self.attention.project_kv(x), mask=mask, site=site / "attention")
        x = self.higher((site / "looked").dropout(torch.cat((x, looked), -1), self.dropout), lengths=lengths).x
        real = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        if segments is None or not self.pairs:
            return Seen(x, _largest(x, real))
        u, v = (_largest(x, real & (segments == part)) for part in (0, 1))
        return Seen(x, torch.cat((u, v, (u - v).abs(), u * v), -1))


def _largest(x: Tensor, where: Tensor) -> Tensor:
    """Of each number of x (B, T, C), over the tokens where (B, T) says so; 0 where it nowhere does."""
    return x.masked_fill(~where[..., None], -torch.inf).amax(1).nan_to_num(neginf=0.0)
