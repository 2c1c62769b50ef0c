"""The Transformer encoder-decoder [Vaswani+ 2017, figure 1]."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.cache import KV, Past
from regard.attention.mask import Mask
from regard.attention.position import input_position, steps
from regard.attention.site import Site
from regard.models.config import TransformerConfig
from regard.models.writer import Seq2seq, fronts
from regard.nn.embed import OutputHead, Steps
from regard.nn.parts import make_norm
from regard.nn.stack import Memory, Stack


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Of N rows: the source's keys and values by layer, those of the output so far, and where each row began."""

    memory: tuple[KV, ...]
    mask: Mask  # of the sources
    rows: Tensor  # the source of each row (N,): while it stays the same, the memory need not be copied
    past: Past

    def select(self, index: Tensor) -> "TransformerState":
        rows, past = self.rows[index], self.past.select(index)
        if torch.equal(rows, self.rows):
            return replace(self, past=past)
        memory = tuple(kv.select(index) for kv in self.memory)
        return replace(self, memory=memory, mask=self.mask.select(index), rows=rows, past=past)


class Transformer(Seq2seq[TransformerState]):
    """An encoder Stack, and a decoder Stack that also looks at what the encoder made."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        scaled = config.scaled_embedding
        self.source_embedding, self.target_embedding, output = fronts(config, config.width, self._parts, scaled=scaled)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self.head = OutputHead(output, bias=config.output_bias)
        self.longest = config.position.max_length

    def _parts(self) -> dict[str, Any]:
        config = self.config
        norm = make_norm(config.norm, config.width, config.norm_eps) if config.embedding_norm else None
        return {"position": input_position(config.position, config.width), "norm": norm, "dropout": config.dropout}

    def begun(self, encoded: Steps) -> TransformerState:
        memory, rows = self.decoder.project_kv(encoded.x), torch.arange(len(encoded.x), device=encoded.x.device)
        return TransformerState(memory, encoded.mask, rows, self.decoder.nothing_yet(len(rows)))

    def advance(self, tokens: Tensor, state: TransformerState, site: Site = Site()) -> tuple[Tensor, TransformerState]:
        num_keys = state.past.num_keys + tokens.shape[1]
        positions, _ = steps(tokens.shape[1], num_keys, state.past.starts, tokens.device)
        x = self.target_embedding.embed(tokens, positions, site / "target")
        memory = Memory(state.memory, state.mask)
        stacked = self.decoder(x, mask=Mask.causal(), memory=memory, past=state.past, site=site / "decoder")
        return stacked.x, replace(state, past=stacked.past)
