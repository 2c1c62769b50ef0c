"""The recurrent language model [Mikolov+ 2010; Zaremba+ 2014]: its state is carried from text to text."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.site import Site
from regard.models.config import RecurrentTextConfig
from regard.models.writer import LanguageModel
from regard.nn.embed import Embedding, OutputHead, word_table
from regard.nn.recurrent import RecurrentLayers
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class TextState:
    """Of N rows: each layer's vectors."""

    hidden: Tensor  # (N, layers, 1, vectors, width)

    def select(self, index: Tensor) -> "TextState":
        return replace(self, hidden=self.hidden[index])


class RecurrentText(LanguageModel[TextState]):
    """Recurrent layers between two word tables, which may be one [Press+ 2017]."""

    config: RecurrentTextConfig

    def __init__(self, config: RecurrentTextConfig) -> None:
        super().__init__(config)
        table = word_table(config.vocabulary, config.embedding)
        self.embedding = Embedding(table, dropout=config.dropout)
        self.layers = RecurrentLayers(config.layers)
        narrower = config.width != config.embedding
        self.readout = nn.Linear(config.width, config.embedding) if narrower else nn.Identity()
        self.head = OutputHead(table if config.tied else word_table(*table.shape), bias=True)

    def nothing_yet(self, rows: int) -> TextState:
        return TextState(self.head.table.new_zeros(self.layers.state_shape(rows)))

    def advance(self, tokens: Tensor, state: TextState, site: Site = Site()) -> tuple[Tensor, TextState]:
        read = self.layers(self.embedding.embed(tokens, site=site / "text"), state.hidden, site=site / "decoder")
        x = (site / "readout").dropout(read.x, self.config.dropout)
        return self.readout(x), replace(state, hidden=read.state)

    def read(self, prefix: Padded, state: TextState) -> TextState:
        words, lengths = self.embedding.embed(prefix.tokens[:, :-1]), prefix.lengths - 1
        read = self.layers(words, state.hidden, lengths.clamp(min=1))
        nothing = (lengths == 0)[:, None, None, None, None]
        return replace(state, hidden=torch.where(nothing, state.hidden, read.state))
