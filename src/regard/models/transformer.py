"""The Transformer encoder-decoder [Vaswani+ 2017, figure 1]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.cache import KV
from regard.attention.mask import Mask
from regard.attention.position import input_position, steps
from regard.attention.site import Site, Trace
from regard.decode.stepper import Step
from regard.models.config import TransformerConfig
from regard.models.seq2seq import Tables, check_source, push_right
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


class Transformer(nn.Module):
    """An encoder Stack, and a decoder Stack that also looks at what the encoder made."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.start, self.end = config.start, config.end
        tables = Tables.of(config, config.width)
        self.source_embedding = self._embedding(tables.source)
        self.target_embedding = self._embedding(tables.target)
        self.encoder = Stack(config.stack(cross=False))
        self.decoder = Stack(config.stack(cross=True))
        self.head = OutputHead(tables.output, bias=config.output_bias)

    def _embedding(self, table: nn.Parameter) -> Embedding:
        config = self.config
        return Embedding(
            table,
            position=input_position(config.position, config.width),
            scaled=config.scaled_embedding,
            norm=make_norm(config.norm, config.width) if config.embedding_norm else None,
            dropout=config.dropout,
        )

    def encode(self, source: Padded, site: Site = Site()) -> Memory:
        """The source, as the decoder's layers will look at it."""
        check_source(source)
        length = source.tokens.shape[1]
        positions, _ = steps(length, length, None, source.tokens.device)
        x = self.source_embedding(source.tokens, positions, source.lengths, site / "source")
        mask = Mask.padding(source.lengths)
        encoded = self.encoder(x, mask=mask, site=site / "encoder")
        return self.decoder.memorise(encoded.x, mask)

    def forward(self, source: Padded, target: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), which begins with `start`."""
        memory = self.encode(source, site)
        return self.head(self._decode(target, memory, (), None, site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None, *, watch: bool = False) -> TransformerState:
        memory = self.encode(batch)
        attention = self.config.stack(cross=True).attention
        none = memory.layers[0].k.new_zeros(len(batch), attention.groups, 0, attention.head_width)
        rows = torch.arange(len(batch), device=batch.lengths.device)
        past = tuple(KV(none, none) for _ in memory.layers)
        state = TransformerState(tuple(memory.layers), batch.lengths, rows, past, None, watch)
        if prefix is None or prefix.tokens.shape[1] == 1:
            return state
        tokens, starts = push_right(prefix)
        _, past = self._decode(tokens[:, :-1], memory, past, starts, Site())
        return replace(state, past=past, starts=starts)

    def step(
        self, tokens: Tensor, state: TransformerState, *, candidates: Tensor | None = None
    ) -> Step[TransformerState]:
        memory = Memory(state.memory, Mask.padding(state.lengths))
        trace = Trace() if state.watch else None
        x, past = self._decode(tokens[:, None], memory, state.past, state.starts, Site(trace=trace))
        log_probs = self.head(x[:, -1], candidates).log_softmax(-1)
        attention = None
        if trace is not None:  # the last layer's heads, on average
            attention = trace.maps()[f"decoder.{len(past) - 1}.cross"][:, :, -1].mean(1)
        return Step(log_probs, replace(state, past=past), attention)

    def _decode(
        self, tokens: Tensor, memory: Memory, past: tuple[KV, ...], starts: Tensor | None, site: Site
    ) -> tuple[Tensor, tuple[KV, ...]]:
        """The decoder's output for more tokens (N, T) after `past`, and the longer past."""
        num_past = past[0].num_keys if past else 0
        positions, _ = steps(tokens.shape[1], num_past + tokens.shape[1], starts, tokens.device)
        x = self.target_embedding(tokens, positions, None, site / "target")
        stacked = self.decoder(x, mask=Mask.causal(), memory=memory, past=past, starts=starts, site=site / "decoder")
        return stacked.x, stacked.caches
