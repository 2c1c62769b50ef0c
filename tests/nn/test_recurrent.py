"""Fast ways through recurrent layers hold to the plain ones: outputs, states and gradients."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention import Site
from regard.nn.config import RecurrentLayersConfig
from regard.nn.recurrent import RecurrentLayers
from regard.rng import Key

B, T, C, MORE, WIDTH = 3, 5, 6, 4, 8


def layers_of(**changes: object) -> RecurrentLayers:
    config: dict[str, object] = dict(input_width=C + MORE, width=WIDTH) | changes
    layers = RecurrentLayers(RecurrentLayersConfig(**config))  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(1)
    for parameter in layers.parameters():  # large enough for gates to matter
        parameter.data = 0.7 * torch.randn(parameter.shape, generator=draw)
    return layers


def gradients(layers: nn.Module, inputs: list[Tensor], outputs: list[Tensor]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(2)
    noise = [torch.randn(x.shape, generator=draw).to(x.dtype) for x in outputs]
    return list(torch.autograd.grad(outputs, [*inputs, *layers.parameters()], noise, retain_graph=True))


def assert_same(found: list[Tensor], wanted: list[Tensor], within: float) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert float((a - b).detach().abs().max()) <= within


@pytest.mark.parametrize("changes", [{}, {"num_layers": 2, "dropout": 0.3}, {"num_layers": 3, "residual": True}])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_steps_prepared_ahead_equal_steps_of_the_whole_input(cell: str, changes: dict[str, object]) -> None:
    layers, site = layers_of(cell=cell, **changes).double(), Site(key=Key(0)) / "here"
    front, rest = (torch.randn(B, T, n).double().requires_grad_() for n in (C, MORE))
    state = torch.randn(layers.state_shape(B)).double().requires_grad_()
    plain, whole = state, []
    for t in range(T):
        run = layers(torch.cat((front, rest), 2)[:, t : t + 1], plain, site=site.at(t))
        plain = run.state
        whole.append(run.x[:, 0])
    ahead, vectors, outs = layers.ahead(front), [x.unbind(1) for x in state[:, :, 0].unbind(1)], []
    for t in range(T):
        x, vectors = layers.step(ahead, t, rest[:, t], vectors, site.at(t))
        outs.append(x)
    fast = torch.stack([torch.stack(x, 1) for x in vectors], 1)[:, :, None]
    found, wanted = [torch.stack(outs), fast], [torch.stack(whole), plain]
    assert_same(found, wanted, 1e-12)
    inputs = [front, rest, state]
    assert_same(gradients(layers, inputs, found), gradients(layers, inputs, wanted), 1e-11)


@pytest.mark.parametrize(("kind", "within"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])  # sums of some 100 terms
@pytest.mark.parametrize("lengths", [[2, 5, 3], [5, 5, 5], [1, 1, 4]])
@pytest.mark.parametrize("starts", ["from zeros", "from a state"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_padded_rows_are_read_as_if_packed(
    cell: str, bidirectional: bool, starts: str, lengths: list[int], kind: torch.dtype, within: float
) -> None:
    layers, sizes = layers_of(cell=cell, bidirectional=bidirectional).to(kind), torch.tensor(lengths)
    x = torch.randn(B, T, C + MORE, dtype=kind, requires_grad=True)
    state = torch.randn(layers.state_shape(B), dtype=kind) * (starts == "from a state")
    state.requires_grad_()
    run = layers(x, state if starts == "from a state" else None, sizes)
    begins = [v.transpose(0, 1).contiguous() for v in state[:, 0].unbind(2)]
    packed = pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False)
    y, ends = layers.layers[0](packed, tuple(begins) if cell == "lstm" else begins[0])
    y, _ = pad_packed_sequence(y, batch_first=True, total_length=T)
    last = torch.stack(ends if cell == "lstm" else (ends,), 3).permute(1, 0, 3, 2)[:, None]
    found, wanted = [run.x, run.state], [y, last]
    assert_same(found, wanted, within)
    inputs = [x] if starts == "from zeros" else [x, state]
    assert_same(gradients(layers, inputs, found), gradients(layers, inputs, wanted), 10 * within)
    padding = torch.arange(T) >= sizes[:, None]
    assert not run.x[padding].any()
    assert not gradients(layers, [x], [run.x, run.state])[0][padding].any()
