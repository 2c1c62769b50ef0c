"""The encoder alone: BERT [Devlin+ 2019], which guesses words that were taken out, and makes vectors of texts."""

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.position import input_position
from regard.attention.site import Site
from regard.models.config import BertConfig
from regard.nn.embed import Embedding, OutputHead, word_table
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.norm import make_norm
from regard.nn.stack import Stack
from regard.shapes import Padded


class Bert(nn.Module):
    """One Stack that looks both ways."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.start, self.end, self.mask = config.start, config.end, config.mask
        table = word_table(config.vocabulary, width)
        position = input_position(config.position, width)
        segments = word_table(config.segments, width) if config.segments else None
        norm = make_norm(config.norm, width, config.norm_eps) if config.embedding_norm else None
        self.embedding = Embedding(table, position=position, segments=segments, norm=norm, dropout=config.dropout)
        self.encoder = Stack(config, config.num_layers)
        self.pooler = nn.Linear(width, width) if config.pooler else None
        self.follows = nn.Linear(width, 2) if config.next_sentence else None
        self.guess = Guess(config, table) if config.guesses else None

    def forward(self, texts: Padded, segments: Tensor | None = None, site: Site = Site()) -> Tensor:
        """Vectors (B, T, C); segments (B, T) number the parts of each text, by default all are of the first."""
        positions = torch.arange(texts.tokens.shape[1], device=texts.tokens.device)[None]
        x = self.embedding(texts.tokens, positions, texts.lengths, site / "text", segments)
        return self.encoder(x, mask=Mask.padding(texts.lengths), site=site.over("source") / "encoder").x

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
