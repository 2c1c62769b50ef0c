"""The Transformer encoder-decoder [Vaswani+ 2017, figure 1]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.cache import KV
from regard.attention.mask import Mask
from regard.attention.position import input_position, steps
from regard.attention.site import Site
from regard.models.config import TransformerConfig
from regard.models.seq2seq import Seq2seq, Tables, check_source
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
    past: tuple[KV, ...]
    starts: Tensor | None  # (N,), where rows are of different age
    watch: bool

    def select(self, index: Tensor) -> TransformerState:
        rows = self.rows[index]
        past = [kv.select(index) for kv in self.past]
        starts = None if self.starts is None else self.starts[index]
        if starts is not None:
            oldest = int(starts.min())
            past = [kv.since(oldest) for kv in past]
            starts = starts - oldest if (starts > oldest).any() else None
        if torch.equal(rows, self.rows):
            return replace(self, past=tuple(past), starts=starts)
        memory = tuple(kv.select(index) for kv in self.memory)
        return replace(self, memory=memory, lengths=self.lengths[index], rows=rows, past=tuple(past), starts=starts)

    def join(self, other: TransformerState) -> TransformerState:
        longest = max(state.past[0].num_keys for state in (self, other))
        starts = torch.cat([state._starts() + longest - state.past[0].num_keys for state in (self, other)])
        return TransformerState(
            tuple(a.join(b, "right") for a, b in zip(self.memory, other.memory, strict=True)),
            torch.cat((self.lengths, other.lengths)),
            torch.cat((self.rows, other.rows + self.rows.max() + 1)),
            tuple(a.join(b, "left") for a, b in zip(self.past, other.past, strict=True)),
            starts if starts.any() else None,
            self.watch or other.watch,
        )

    def _starts(self) -> Tensor:
        return torch.zeros_like(self.rows) if self.starts is None else self.starts


class Transformer(Seq2seq[TransformerState]):
    """An encoder Stack, and a decoder Stack that also looks at what the encoder made."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.config = config
        tables = Tables.of(config, config.width)
        self.source_embedding = self._embedding(tables.source)
        self.target_embedding = self._embedding(tables.target)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self.head = OutputHead(tables.output, bias=config.output_bias)
        self.watched = f"decoder.{config.decoder_layers - 1}.cross"  # the last layer's heads, on average

    def _embedding(self, table: nn.Parameter) -> Embedding:
        config = self.config
        return Embedding(
            table,
            position=input_position(config.position, config.width),
            scaled=config.scaled_embedding,
            norm=make_norm(config.norm, config.width) if config.embedding_norm else None,
            dropout=config.dropout,
        )

    def encode(self, source: Padded, site: Site = Site(), *, watch: bool = False) -> TransformerState:
        check_source(source)
        length = source.tokens.shape[1]
        positions, _ = steps(length, length, None, source.tokens.device)
        x = self.source_embedding(source.tokens, positions, source.lengths, site / "source")
        encoded = self.encoder(x, mask=Mask.padding(source.lengths), site=site / "encoder")
        memory = self.decoder.memorise(encoded.x)
        rows = torch.arange(len(source), device=x.device)
        return TransformerState(memory, source.lengths, rows, tuple(kv.since(length) for kv in memory), None, watch)

    def advance(self, tokens: Tensor, state: TransformerState, site: Site = Site()) -> tuple[Tensor, TransformerState]:
        num_keys = state.past[0].num_keys + tokens.shape[1]
        positions, _ = steps(tokens.shape[1], num_keys, state.starts, tokens.device)
        x = self.target_embedding(tokens, positions, None, site / "target")
        stacked = self.decoder(
            x,
            mask=Mask.causal(),
            memory=Memory(state.memory, Mask.padding(state.lengths)),
            past=state.past,
            starts=state.starts,
            site=site / "decoder",
        )
        return stacked.x, replace(state, past=stacked.caches)

    def read(self, prefix: Padded, state: TransformerState) -> TransformerState:
        """All prefixes end together on the right: their padding moves to the left."""
        width = prefix.tokens.shape[1]
        starts = width - prefix.lengths
        index = torch.arange(width, device=starts.device)[None] - starts[:, None]
        tokens = prefix.tokens.gather(1, index.clamp(min=0))
        return self.advance(tokens[:, :-1], replace(state, starts=starts if starts.any() else None))[1]
