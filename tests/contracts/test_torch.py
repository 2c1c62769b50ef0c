"""Contract 6, first half: weights copied from PyTorch's own layers give equal outputs."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Mask, MultiheadAttention, Site, Trace
from regard.attention.config import AttentionConfig, PositionConfig
from regard.nn.config import RecurrentLayersConfig, StackConfig
from regard.nn.recurrent import RecurrentLayers
from regard.nn.stack import Block, Memory, Stack

B, T, S, C, H = 2, 3, 5, 24, 4
CLOSE = 1e-5  # float32


def assert_equal(name: str, got: Tensor, wanted: Tensor) -> None:
    difference = float((got - wanted).detach().abs().max())
    print(f"\n{name}: largest difference {difference:.1e}")
    assert difference <= CLOSE


def copy_attention(theirs: nn.MultiheadAttention, mine: MultiheadAttention) -> None:
    weights = theirs.in_proj_weight.chunk(3) if theirs.in_proj_weight is not None else (
        theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    )  # fmt: skip
    for layer, weight, bias in zip(
        (mine.to_q, mine.to_k, mine.to_v), weights, theirs.in_proj_bias.chunk(3), strict=True
    ):
        layer.weight.data.copy_(weight)
        layer.bias.data.copy_(bias)
    mine.to_out.load_state_dict(theirs.out_proj.state_dict())


def shake(module: nn.Module) -> None:
    """PyTorch begins with zero biases and unit norms, which would hide a swap."""
    for parameter in module.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize("memory_width", [C, 7])
@pytest.mark.parametrize("masked", ["none", "padding", "causal"])
def test_multihead_attention(masked: str, memory_width: int) -> None:
    theirs = nn.MultiheadAttention(C, H, kdim=memory_width, vdim=memory_width, batch_first=True)
    shake(theirs)
    mine = MultiheadAttention(AttentionConfig(width=C, memory_width=memory_width, num_heads=H))
    copy_attention(theirs, mine)
    x, memory = torch.randn(B, T, C), torch.randn(B, S, memory_width)
    lengths = torch.tensor([5, 2])
    hidden = torch.arange(S)[None] >= lengths[:, None]
    later = torch.arange(S)[None] > torch.arange(T)[:, None] + S - T
    arguments: dict[str, Tensor | None] = {
        "none": {},
        "padding": {"key_padding_mask": hidden},
        "causal": {"attn_mask": later},
    }[masked]  # type: ignore[assignment]
    mask = {"none": Mask(), "padding": Mask.padding(lengths), "causal": Mask.causal()}[masked]
    wanted, weights = theirs(x, memory, memory, average_attn_weights=False, **arguments)  # type: ignore[arg-type]
    assert_equal("MultiheadAttention", mine(x, mine.project_kv(memory), mask=mask), wanted)
    trace = Trace()
    mine(x, mine.project_kv(memory), mask=mask, site=Site(trace=trace) / "here")
    assert_equal("its weights", trace.maps()["here"], weights)


def copy_block(theirs: Any, mine: Block) -> None:
    copy_attention(theirs.self_attn, mine.self_attention)
    norms = [mine.self_residual.norm]
    if mine.cross_attention is not None:
        copy_attention(theirs.multihead_attn, mine.cross_attention)
        norms.append(mine.cross_residual.norm)  # type: ignore[union-attr]
    norms.append(mine.feedforward_residual.norm)
    mine.feedforward.up.load_state_dict(theirs.linear1.state_dict())
    mine.feedforward.down.load_state_dict(theirs.linear2.state_dict())
    for i, norm in enumerate(norms, 1):
        norm.load_state_dict(getattr(theirs, f"norm{i}").state_dict())


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer_layers(side: str, placement: str, activation: str, layers: int) -> None:
    arguments = dict(
        dim_feedforward=20, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    )
    last = nn.LayerNorm(C) if placement == "pre" else None
    theirs: Any
    if side == "encoder":
        theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(C, H, **arguments), layers, norm=last)  # type: ignore[arg-type]
    else:
        theirs = nn.TransformerDecoder(nn.TransformerDecoderLayer(C, H, **arguments), layers, norm=last)  # type: ignore[arg-type]
    shake(theirs)
    mine = Stack(
        StackConfig(
            width=C, num_heads=H, hidden=20, activation=activation, placement=placement,  # type: ignore[arg-type]
            position=PositionConfig(kind="none"),
        ),
        layers,
        cross=side == "decoder",
    )  # fmt: skip
    for a, b in zip(theirs.layers, mine.blocks, strict=True):
        copy_block(a, b)  # type: ignore[arg-type]
    if last is not None:
        mine.norm.load_state_dict(theirs.norm.state_dict())
    x, memory, lengths = torch.randn(B, T, C), torch.randn(B, S, C), torch.tensor([5, 2])
    hidden = torch.arange(S)[None] >= lengths[:, None]
    if side == "encoder":
        wanted = theirs(memory, src_key_padding_mask=hidden)
        got = mine(memory, mask=Mask.padding(lengths)).x
        wanted, got = (out.masked_fill(hidden[..., None], 0.0) for out in (wanted, got))
    else:
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        wanted = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=hidden)
        got = mine(x, mask=Mask.causal(), memory=Memory(mine.project_kv(memory), Mask.padding(lengths))).x
    assert_equal(f"Transformer {side}", got, wanted)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_layers(cell: str, bidirectional: bool, layers: int) -> None:
    theirs = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell](
        6, 8, layers, batch_first=True, bidirectional=bidirectional
    )
    mine = RecurrentLayers(
        RecurrentLayersConfig(cell=cell, input_width=6, width=8, num_layers=layers, bidirectional=bidirectional)  # type: ignore[arg-type]
    )
    for i, layer in enumerate(mine.layers):
        for name, parameter in layer.named_parameters():
            parameter.data.copy_(getattr(theirs, name.replace("_l0", f"_l{i}")))
    x, directions = torch.randn(B, T, 6), 2 if bidirectional else 1
    vectors = 2 if cell == "lstm" else 1
    state = torch.randn(B, layers, directions, vectors, 8)
    starts = tuple(state[:, :, :, i].flatten(1, 2).transpose(0, 1).contiguous() for i in range(vectors))
    wanted, ends = theirs(x, starts if cell == "lstm" else starts[0])
    run = mine(x, state)
    assert_equal(cell, run.x, wanted)
    for i, end in enumerate(ends if cell == "lstm" else (ends,)):
        got = run.state[:, :, :, i].flatten(1, 2).transpose(0, 1)
        assert_equal(f"{cell} state", got, end)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_padding_touches_no_state(cell: str) -> None:
    layers = RecurrentLayers(
        RecurrentLayersConfig(cell=cell, input_width=6, width=8, num_layers=2, bidirectional=True, residual=True)  # type: ignore[arg-type]
    ).double()
    x, lengths = torch.randn(3, 5, 6).double(), torch.tensor([2, 5, 3])
    together = layers(x, lengths=lengths)
    for i, n in itertools.zip_longest(range(3), lengths.tolist()):
        alone = layers(x[i : i + 1, :n])
        assert torch.allclose(together.x[i, :n], alone.x[0], atol=1e-12)
        assert torch.allclose(together.state[i], alone.state[0], atol=1e-12)
