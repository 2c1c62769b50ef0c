"""The recurrent encoder-decoder, without attention [Sutskever+ 2014] or with [Bahdanau+ 2015; Luong+ 2015]."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.cache import KV
from regard.attention.mask import Mask
from regard.attention.multihead import MultiheadAttention
from regard.attention.site import Site
from regard.models.config import RecurrentConfig
from regard.models.writer import Seq2seq, fronts
from regard.nn.embed import OutputHead, Steps, word_table
from regard.nn.recurrent import RecurrentLayers
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """Of N rows: the decoder's state, and what it may know of the source."""

    hidden: Tensor  # (N, layers, 1, vectors, width)
    memory: KV | None  # with attention
    mask: Mask  # of the sources
    encoding: Tensor | None  # (N, width): the source's final state, where every step is told it

    def select(self, index: Tensor) -> "RecurrentState":
        memory = self.memory and self.memory.select(index)
        encoding = None if self.encoding is None else self.encoding[index]
        return RecurrentState(self.hidden[index], memory, self.mask.select(index), encoding)


class Recurrent(Seq2seq[RecurrentState]):
    """Recurrent layers read the source; recurrent layers, which may look at what was read, write the target."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        parts = lambda: {"dropout": config.dropout}  # noqa: E731
        self.source_embedding, self.target_embedding, output = fronts(config, config.embedding, parts)
        self.encoder = RecurrentLayers(config.encoder)
        self.decoder = RecurrentLayers(config.decoder)
        self.attention = MultiheadAttention(config.looking) if config.looking else None
        size = config.width * config.encoder.num_states  # of one layer's state
        self.bridge = nn.Linear(size, size * config.decoder_layers) if config.bridge == "linear" else None
        told = config.width + config.context_width
        self.readout = nn.Linear(told, config.embedding) if config.readout else None
        self.head = OutputHead(output if config.readout else word_table(config.target_vocabulary, told), bias=True)

    def begun(self, encoded: Steps) -> RecurrentState:
        assert encoded.state is not None, "an encoder without a final state"
        # (B, layers, directions, vectors, C') -> (B, layers, vectors, C)
        final = encoded.state.transpose(2, 3).flatten(3)
        hidden = final
        if self.bridge is not None:
            hidden = torch.tanh(self.bridge(final[:, -1].flatten(1)))
            hidden = hidden.unflatten(1, (self.config.decoder_layers, -1, self.config.width))
        memory = self.attention.project_kv(encoded.x) if self.attention else None
        encoding = final[:, -1, 0] if self.config.encoding == "every" else None
        return RecurrentState(hidden[:, :, None], memory, encoded.mask, encoding)

    def read(self, prefix: Padded, state: RecurrentState) -> RecurrentState:
        for t in range(prefix.tokens.shape[1] - 1):  # rows with a shorter prefix wait in their state
            _, newer = self.advance(prefix.tokens[:, t : t + 1], state)
            reads = (t < prefix.lengths - 1)[:, None, None, None, None]
            state = replace(state, hidden=torch.where(reads, newer.hidden, state.hidden))
        return state

    def advance(self, tokens: Tensor, state: RecurrentState, site: Site = Site()) -> tuple[Tensor, RecurrentState]:
        words = self.target_embedding.embed(tokens, site=site / "target")
        site = site / "decoder"
        if self.config.attention is not None and self.config.attention.query == "previous":
            return self._look_then_step(words, state, site)
        # Nothing that was seen goes back into the cell: all steps can run as one.
        takes_in = words if state.encoding is None else self._with(words, state.encoding[:, None])
        run = self.decoder(takes_in, state.hidden, site=site)
        if self.attention is not None:
            context: Tensor | None = self._look(run.x, words, state, site)
        else:
            context = None if state.encoding is None else state.encoding[:, None]
        return self._read(run.x, context, site), replace(state, hidden=run.state)

    def _look_then_step(self, words: Tensor, state: RecurrentState, site: Site) -> tuple[Tensor, RecurrentState]:
        """Bahdanau's order: c(t) from s(t-1), then s(t) from the word and c(t); a loop, each state needing the last."""
        outs, contexts, ahead = [], [], self.decoder.ahead(words)
        hidden = [layer.unbind(1) for layer in state.hidden[:, :, 0].unbind(1)]  # each layer's vectors (N, C)
        for t, word in enumerate(words.split(1, dim=1)):
            context = self._look(hidden[-1][0][:, None], word, state, site.at(t))  # the top layer's h looks
            out, hidden = self.decoder.step(ahead, t, context[:, 0], hidden, site.at(t))
            outs.append(out)
            contexts.append(context)
        last = torch.stack([torch.stack(vectors, 1) for vectors in hidden], 1)[:, :, None]
        return self._read(torch.stack(outs, 1), torch.cat(contexts, 1), site), replace(state, hidden=last)

    def _look(self, query: Tensor, words: Tensor, state: RecurrentState, site: Site) -> Tensor:
        assert self.attention is not None
        assert self.config.attention is not None
        assert state.memory is not None
        if self.config.attention.query_word:
            query = self._with(query, words)
        return self.attention(query, state.memory, mask=state.mask, site=(site / "cross").onto("source"))

    def _read(self, states: Tensor, context: Tensor | None, site: Site) -> Tensor:
        """tanh(W [s; c]), from which words are told [Luong+ 2015, eq. 5]; or [s; c] as it is."""
        together = states if context is None else self._with(states, context)
        told = together if self.readout is None else torch.tanh(self.readout(together))
        return (site / "readout").dropout(told, self.config.dropout)

    @staticmethod
    def _with(x: Tensor, other: Tensor) -> Tensor:
        return torch.cat((x, other.expand(-1, x.shape[1], -1)), -1)
