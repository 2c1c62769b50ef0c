"""Recurrent layers (RNN, LSTM, GRU): bidirectional, stacked, residual, over sentences of different lengths."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.site import Site
from regard.nn.config import RecurrentLayersConfig
from regard.nn.embed import Steps

CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
SHUT = 1e4  # added to a gate, it is open to the last bit whatever else is said; taken away, shut

Vectors = tuple[Tensor, ...]  # of one layer and direction: h, and an LSTM's c; (B, width) each


@dataclass(frozen=True, eq=False)
class Recurred:
    """Each step's output (B, T, C), and the state after the last: (B, layers, directions, vectors, width)."""

    x: Tensor
    state: Tensor


@dataclass(frozen=True, eq=False)
class Ahead:
    """What is done before the first of many steps, each of which needs something of the step before it."""

    gates: tuple[Tensor, ...]  # of each step (B, gates): what the known part of its input says to the first layer
    weights: list[list[Tensor]]  # of each layer: from its input and from its h to its gates, and their biases


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
        if lengths is not None and int(lengths.min()) == x.shape[1]:
            lengths = None  # there is no padding
        ends = []
        for i, layer in enumerate(self.layers):
            if i:
                x = (site / i).dropout(x, self.config.dropout)
            y, end = _run(layer, x, None if state is None else state[:, i], lengths)
            x = x + y if self.config.residual and i else y
            ends.append(end)
        return Recurred(x, torch.stack(ends, dim=1))

    def read(self, steps: Steps, site: Site = Site()) -> Steps:
        """As an encoder."""
        run = self(steps.x, lengths=steps.lengths, site=site)
        return replace(steps, x=run.x, state=run.state)

    def ahead(self, x: Tensor) -> Ahead:
        """For steps in one direction, where x (B, T, C) is the front of what each takes in."""
        weights = list[list[Tensor]]()
        for layer in self.layers:
            assert isinstance(layer, nn.RNNBase)
            assert not layer.bidirectional
            weights.append([*layer.all_weights[0]])
        front, rest = weights[0][0].tensor_split([x.shape[-1]], dim=1)
        return Ahead(F.linear(x, front, weights[0][2]).unbind(1), [[rest, *weights[0][1:]], *weights[1:]])

    def step(
        self, ahead: Ahead, t: int, x: Tensor, state: list[Vectors], site: Site = Site()
    ) -> tuple[Tensor, list[Vectors]]:
        """Step t from each layer's vectors, where x (B, C) is the rest of what it takes in: its output, and theirs."""
        ends = []
        for i, ((weight, back, bias, back_bias), vectors) in enumerate(zip(ahead.weights, state, strict=True)):
            if i:
                x = (site / i).dropout(x, self.config.dropout)
            gates = torch.addmm(bias if i else ahead.gates[t], x, weight.T)
            end = STEPS[self.config.cell](gates, F.linear(vectors[0], back, back_bias), *vectors)
            x = x + end[0] if self.config.residual and i else end[0]
            ends.append(end)
        return x, ends

    def state_shape(self, batch: int) -> tuple[int, ...]:
        config = self.config
        return batch, config.num_layers, 1 + config.bidirectional, config.num_states, config.width


def _run(layer: nn.Module, x: Tensor, state: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """One layer from state (B, directions, vectors, width), or from zeros."""
    vectors = () if state is None else state.transpose(0, 1).unbind(2)  # PyTorch keeps batch second in states
    vectors = tuple(v.contiguous() for v in vectors)
    start = vectors if len(vectors) == 2 else vectors[0] if vectors else None
    fast = x.is_cpu and torch.backends.mkldnn.enabled and not (vectors and layer.bidirectional)
    if lengths is None:
        y, end = layer(x, start)
    elif fast and isinstance(layer, nn.LSTM):
        y, end = _run_marked(layer, x, vectors, lengths)
    else:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, end = layer(packed, start)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    ends = end if isinstance(end, tuple) else (end,)
    return y, torch.stack([v.transpose(0, 1) for v in ends], dim=2)


def _run_marked(layer: nn.LSTM, x: Tensor, start: Vectors, lengths: Tensor) -> tuple[Tensor, Vectors]:
    """As if packed, by PyTorch's fast LSTM for CPUs, which knows no lengths: one more input, 1 on padding, shuts the
    input gate and opens the forget gate. So c stays as it is there; h does not, but is zero where c is, which is
    enough for a direction that begins with padding, if it begins from zeros."""
    padding = torch.arange(x.shape[1], device=x.device)[None] >= lengths[:, None]  # -> (B, T)
    mark = x.new_tensor([-SHUT, SHUT, 0.0, 0.0]).repeat_interleave(layer.hidden_size)  # gates i, f, g, o
    weights = []
    for weight, *others in layer.all_weights:
        weights += [torch.cat((weight, mark[:, None]), 1), *others]
    nothing = x.new_zeros(len(layer.all_weights), len(x), layer.hidden_size)
    x = torch.cat((x, padding[..., None]), 2)
    start = start or (nothing, nothing)
    y, h, c = torch.lstm(x, start, weights, True, 1, 0.0, layer.training, layer.bidirectional, True)
    y = y.masked_fill(padding[..., None], 0.0)
    last = y[torch.arange(len(x)), lengths - 1, : layer.hidden_size]  # the other direction ends at the first step
    return y, (torch.cat((last[None], h[1:])), c)


def _step_lstm(x: Tensor, back: Tensor, h: Tensor, c: Tensor) -> Vectors:
    i, f, g, o = (x + back).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _step_gru(x: Tensor, back: Tensor, h: Tensor) -> Vectors:
    (r, z, n), (back_r, back_z, back_n) = x.chunk(3, 1), back.chunk(3, 1)
    n = torch.tanh(n + (r + back_r).sigmoid() * back_n)
    return (n + (z + back_z).sigmoid() * (h - n),)


# PyTorch's cells, from what the input and h say to the gates.
STEPS: dict[str, Callable[..., Vectors]] = {"lstm": _step_lstm, "gru": _step_gru}
STEPS["rnn"] = lambda x, back, h: (torch.tanh(x + back),)
