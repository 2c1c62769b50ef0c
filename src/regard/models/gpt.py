"""The decoder alone: GPT [Radford+ 2018; 2019], Llama [Touvron+ 2023] and all between, by their settings."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.cache import Past
from regard.attention.mask import Mask
from regard.attention.position import input_position, steps
from regard.attention.site import Site
from regard.models.config import GptConfig
from regard.models.writer import LanguageModel
from regard.nn.embed import Embedding, OutputHead, word_table
from regard.nn.stack import Stack


@dataclass(frozen=True, eq=False)
class GptState:
    """Of N rows: the text so far, and, in training, which document each of the next tokens belongs to."""

    past: Past
    segments: Tensor | None = None  # (N, T)

    def select(self, index: Tensor) -> "GptState":
        return replace(self, past=self.past.select(index))


class Gpt(LanguageModel[GptState]):
    """One Stack that looks back."""

    config: GptConfig

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        table = word_table(config.vocabulary, config.width)
        position = input_position(config.position, config.width)
        self.embedding = Embedding(table, position=position, dropout=config.dropout)
        self.decoder = Stack(config, config.num_layers)
        self.head = OutputHead(table if config.tied else word_table(*table.shape), bias=False)
        self.longest = config.position.max_length

    def nothing_yet(self, rows: int) -> GptState:
        return GptState(self.decoder.nothing_yet(rows))

    def advance(self, tokens: Tensor, state: GptState, site: Site = Site()) -> tuple[Tensor, GptState]:
        num_keys = state.past.num_keys + tokens.shape[1]
        positions, _ = steps(tokens.shape[1], num_keys, state.past.starts, tokens.device)
        mask, context = Mask.causal(), self.config.context
        if context is not None and num_keys > context:
            mask = mask & Mask.window(context)
        if state.segments is not None:
            mask, positions = mask & Mask.segments(state.segments), _since_their_first(state.segments)
        places = None if state.segments is None else positions
        x = self.embedding.embed(tokens, positions, site / "text")
        stacked = self.decoder(x, mask=mask, past=state.past, places=places, site=site / "decoder")
        return stacked.x, replace(state, past=stacked.past)


def _since_their_first(segments: Tensor) -> Tensor:
    """The position of each token in its own document: (N, T), counted from 0."""
    index = torch.arange(segments.shape[1], device=segments.device)[None]
    first = F.pad((segments[:, 1:] != segments[:, :-1]) * index[:, 1:], (1, 0))
    return index - first.cummax(1).values
