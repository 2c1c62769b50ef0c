"""The encoder alone: BERT [Devlin+ 2019], which guesses words that were taken out, and makes vectors of texts."""

import torch
from torch import Tensor, nn

from regard.attention.position import input_position
from regard.attention.site import Site
from regard.models.config import BertConfig
from regard.nn.embed import OutputHead, Steps, front_of, word_table
from regard.nn.parts import ACTIVATIONS, make_norm
from regard.nn.stack import Stack
from regard.shapes import Padded


class Bert(nn.Module):
    """One Stack that looks both ways."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.start, self.end, self.mask = config.start, config.end, config.mask
        norm = make_norm(config.norm, width, config.norm_eps) if config.embedding_norm else None
        parts = {"position": input_position(config.position, width), "norm": norm, "dropout": config.dropout}
        table = None if config.front else word_table(config.vocabulary, width)
        segments = word_table(config.segments, width) if config.segments and table is not None else None
        self.embedding = front_of(config.front, width, table, parts, segments=segments)
        self.encoder = Stack(config, config.num_layers)
        self.pooler = nn.Linear(width, width) if config.pooler else None
        self.follows = nn.Linear(width, 2) if config.next_sentence else None
        self.guess = Guess(config, table) if config.guesses and table is not None else None

    def hidden(self, batch: Padded, site: Site = Site()) -> Steps:
        """The last layer's vectors."""
        return self.encoder.read(self.embedding(batch, site / "text"), site.over("source") / "encoder")

    def forward(self, batch: Padded, site: Site = Site()) -> Tensor:
        """The same (B, T, C)."""
        return self.hidden(batch, site).x

    def pooled(self, x: Tensor) -> Tensor:
        """One vector (B, C) of a text, from its first token."""
        assert self.pooler is not None, "a model without a pooler"
        return torch.tanh(self.pooler(x[:, 0]))


class Guess(nn.Module):
    """Vectors (.., C) -> logits (.., V) of the words that were taken out."""

    def __init__(self, config: BertConfig, table: nn.Parameter) -> None:
        super().__init__()
        self.map = nn.Linear(config.width, config.width)
        self.function, _ = ACTIVATIONS[config.activation]
        self.norm = make_norm(config.norm, config.width, config.norm_eps)
        self.head = OutputHead(table if config.tied else word_table(*table.shape), bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.function(self.map(x))))
