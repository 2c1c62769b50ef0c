"""The Transformer encoder-decoder [Vaswani+ 2017, figure 1]."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.cache import KV, Past
from regard.attention.mask import Mask
from regard.attention.position import input_position, steps
from regard.attention.site import Site
from regard.models.config import TransformerConfig
from regard.models.seq2seq import Seq2seq, check_source, word_tables
from regard.nn.embed import Embedding, OutputHead
from regard.nn.norm import make_norm
from regard.nn.stack import Memory, Stack
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Of N rows: the source's keys and values by layer, those of the output so far, and where each row began."""

    memory: tuple[KV, ...]
    lengths: Tensor  # of the sources (N,)
    rows: Tensor  # the sentence of each row (N,): while it stays the same, the memory need not be copied
    past: Past

    def select(self, index: Tensor) -> "TransformerState":
        rows, past = self.rows[index], self.past.select(index)
        if torch.equal(rows, self.rows):
            return replace(self, past=past)
        memory = tuple(kv.select(index) for kv in self.memory)
        return replace(self, memory=memory, lengths=self.lengths[index], rows=rows, past=past)


class Transformer(Seq2seq[TransformerState]):
    """An encoder Stack, and a decoder Stack that also looks at what the encoder made."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        source, target, output = word_tables(config, config.width)
        self.source_embedding = self._embedding(source)
        self.target_embedding = self._embedding(target)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self.head = OutputHead(output, bias=config.output_bias)
        self.longest = config.position.max_length

    def _embedding(self, table: nn.Parameter) -> Embedding:
        config = self.config
        position = input_position(config.position, config.width)
        norm = make_norm(config.norm, config.width, config.norm_eps) if config.embedding_norm else None
        return Embedding(table, position=position, scaled=config.scaled_embedding, norm=norm, dropout=config.dropout)

    def encode(self, source: Padded, site: Site = Site()) -> TransformerState:
        check_source(source)
        positions = torch.arange(source.tokens.shape[1], device=source.tokens.device)[None]
        x = self.source_embedding(source.tokens, positions, source.lengths, site / "source")
        encoded = self.encoder(x, mask=Mask.padding(source.lengths), site=site.over("source") / "encoder")
        memory = self.decoder.project_kv(encoded.x)
        rows = torch.arange(len(source), device=x.device)
        return TransformerState(memory, source.lengths, rows, self.decoder.nothing_yet(len(source)))

    def advance(self, tokens: Tensor, state: TransformerState, site: Site = Site()) -> tuple[Tensor, TransformerState]:
        num_keys = state.past.num_keys + tokens.shape[1]
        positions, _ = steps(tokens.shape[1], num_keys, state.past.starts, tokens.device)
        x = self.target_embedding(tokens, positions, None, site / "target")
        memory = Memory(state.memory, Mask.padding(state.lengths))
        stacked = self.decoder(x, mask=Mask.causal(), memory=memory, past=state.past, site=site / "decoder")
        return stacked.x, replace(state, past=stacked.past)
