"""Recurrent layers (RNN, LSTM, GRU): bidirectional, stacked, residual, over sentences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.site import Site
from regard.nn.config import RecurrentLayersConfig

CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


@dataclass(frozen=True, eq=False)
class Recurred:
    """Each step's output (B, T, C), and the state after the last: (B, layers, directions, vectors, width)."""

    x: Tensor
    state: Tensor


class RecurrentLayers(nn.Module):
    """PyTorch's own layers, with counted dropout and residuals between, and the state as one batch-first tensor."""

    def __init__(self, config: RecurrentLayersConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.input_width, *[config.out_width] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(
            CELLS[config.cell](width, config.width, batch_first=True, bidirectional=config.bidirectional)
            for width in widths
        )

    def forward(
        self, x: Tensor, state: Tensor | None = None, lengths: Tensor | None = None, site: Site = Site()
    ) -> Recurred:
        """x (B, T, C) from a state, or from zeros; with lengths (B,), padding on the right touches nothing."""
        if state is None:
            state = x.new_zeros(self.state_shape(len(x)))
        ends = []
        for i, layer in enumerate(self.layers):
            if i:
                x = (site / i).dropout(x, self.config.dropout)
            y, end = _run(layer, x, state[:, i], lengths)
            x = x + y if self.config.residual and i else y
            ends.append(end)
        return Recurred(x, torch.stack(ends, dim=1))

    def state_shape(self, batch: int) -> tuple[int, ...]:
        config = self.config
        directions = 2 if config.bidirectional else 1
        return batch, config.num_layers, directions, config.num_states, config.width


def _run(layer: nn.Module, x: Tensor, state: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """One layer from state (B, directions, vectors, width)."""
    vectors = [v.transpose(0, 1).contiguous() for v in state.unbind(2)]  # PyTorch keeps batch second in states
    start = tuple(vectors) if len(vectors) == 2 else vectors[0]
    if lengths is None:
        y, end = layer(x, start)
    else:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, end = layer(packed, start)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    ends = end if isinstance(end, tuple) else (end,)
    return y, torch.stack([v.transpose(0, 1) for v in ends], dim=2)
