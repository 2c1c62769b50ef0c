"""The parts of our models, drawn as nodes of an ONNX graph.

By hand, because PyTorch's tracing exporter is deprecated and bakes sizes in, and its newer one takes ten seconds for
a layer and wants more packages. What is drawn is the reference kernel, for which a test stands.
"""

from collections.abc import Callable
from functools import reduce
from math import inf, pi
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.encoding import Index, Learned, Sinusoid
from regard.attention.multihead import MultiheadAttention
from regard.attention.position import Added, AddedToProjections, Alibi, Position, Rotary, Shaw
from regard.attention.score import MLP, Additive, Bilinear, Dot, ScaledDot
from regard.exchange.installed import installed
from regard.nn.embed import Embedding, OutputHead
from regard.nn.parts import ACTIVATIONS, FeedForward, Residual
from regard.nn.recurrent import RecurrentLayers
from regard.nn.stack import Block, Stack

Value = str | int | float | list[int] | Tensor | NDArray[Any]  # the name of a value, or a constant
Pair = tuple[str, str]
Memory = tuple[list[Pair], str]  # keys and values of each layer, and the mask of all
OPSET, IR = 20, 9  # the first with Gelu, and the format of files of its time: runtimes since 2024 read them


class Graph:
    """A graph in the making; values are names."""

    def __init__(self) -> None:
        self.onnx = installed("onnx")
        self.nodes, self.inputs, self.outputs = list[Any](), list[Any](), list[Any]()
        self.constants = dict[Any, tuple[Any, Any]]()  # with what they were made of, so that no id is used twice

    def __call__(self, op: str, *inputs: Value, **attributes: Any) -> str:
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(self, op: str, count: int, *inputs: Value, **attributes: Any) -> list[str]:
        names = [f"{op}.{len(self.nodes)}.{i}" for i in range(count)]
        taken = [self._name(x) for x in inputs]
        self.nodes.append(self.onnx.helper.make_node(op, taken, names, name=names[0], **attributes))
        return names

    def cast(self, x: str, kind: str) -> str:
        return self("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    def input(self, name: str, kind: str, shape: list[int | str]) -> str:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape))
        return name

    def output(self, name: str, value: str, shape: list[int | str]) -> None:
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    def bytes(self) -> bytes:
        helper, kept = self.onnx.helper, [tensor for _, tensor in self.constants.values()]
        graph = helper.make_graph(self.nodes, "regard", self.inputs, self.outputs, kept)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="regard")
        return bytes(model.SerializeToString())

    def _name(self, x: Value) -> str:
        if isinstance(x, str):
            return x
        key = id(x) if isinstance(x, Tensor | np.ndarray) else repr(x)
        if key not in self.constants:
            array = x.detach().float().cpu().numpy() if isinstance(x, Tensor) else x
            if not isinstance(array, np.ndarray):
                array = np.array(array, np.float32 if isinstance(array, float) else np.int64)
            name = f"constant.{len(self.constants)}"
            self.constants[key] = x, self.onnx.numpy_helper.from_array(array, name)
        return str(self.constants[key][1].name)


def apply(g: Graph, module: nn.Module, x: str) -> str:
    """A layer that takes one value and gives one."""
    return LAYERS[type(module)](g, module, x)


def _linear(g: Graph, layer: Any, x: str) -> str:
    y = g("MatMul", x, g("Transpose", layer.weight, perm=[1, 0]))
    return y if layer.bias is None else g("Add", y, layer.bias)


def _rms(g: Graph, norm: Any, x: str) -> str:
    mean = g("ReduceMean", g("Mul", x, x), [-1])
    return g("Mul", g("Div", x, g("Sqrt", g("Add", mean, float(norm.eps)))), norm.weight)


def _feedforward(g: Graph, layer: Any, x: str) -> str:
    h = FUNCTIONS[layer.function](g, apply(g, layer.gate or layer.up, x))
    return apply(g, layer.down, h if layer.gate is None else g("Mul", h, apply(g, layer.up, x)))


def places(g: Graph, tokens: str, past: str | None = None) -> Pair:
    """Positions (T,) of the queries, which are the last of the keys, and (S,) of the keys."""
    first: Value = 0 if past is None else size(g, past, 2)
    last = g("Add", first, size(g, tokens, 1))
    return g("Range", first, last, 1), g("Range", 0, last, 1)


def size(g: Graph, x: str, axis: int) -> str:
    return g("Gather", g("Shape", x), axis)


def causal(g: Graph, queries: str, keys: str, window: int | None) -> str:
    """What a mask adds to scores: 0, or -inf where a key comes after the query or is out of its window (T, S)."""
    queries = g("Unsqueeze", queries, [1])
    seen = g("LessOrEqual", keys, queries)
    if window is not None:
        seen = g("And", seen, g("Greater", keys, g("Sub", queries, window)))
    return g("Where", seen, 0.0, -inf)


def padding(g: Graph, lengths: str, keys: str) -> str:
    """0, or -inf where a key is none of its sentence's (B, 1, 1, S)."""
    return g("Where", g("Less", keys, g("Unsqueeze", lengths, [1, 2, 3])), 0.0, -inf)


def embed(g: Graph, module: Embedding, tokens: str, positions: str | None = None) -> str:
    x = g("Mul", g("Gather", module.table, tokens), float(module.scale))
    if positions is not None and isinstance(module.position, Added):
        x = g("Add", x, _encoded(g, module.position.encoding, positions))
    return apply(g, module.norm, x)


def _encoded(g: Graph, encoding: Any, positions: str) -> str:
    """(T,) -> (T, C) or (T, 1)."""
    if isinstance(encoding, Learned):
        return g("Gather", encoding.table, positions)
    if isinstance(encoding, Sinusoid):
        angles, shift = (np.zeros(2 * len(encoding.angles)) for _ in range(2))
        angles[encoding.sines], angles[encoding.cosines] = encoding.angles, encoding.angles
        shift[encoding.cosines] = pi / 2
        return g.cast(g("Sin", g("Add", _turns(g, positions, angles), shift)), "FLOAT")
    return g("Unsqueeze", g.cast(positions, "FLOAT"), [1])  # Index


def _turns(g: Graph, positions: str, angles: NDArray[Any]) -> str:
    """(T,) -> (T, D), in float64 as everywhere."""
    return g("Mul", g("Unsqueeze", g.cast(positions, "DOUBLE"), [1]), angles)


def _placed(g: Graph, position: Position, x: str, positions: str) -> str:
    """Queries or keys (B, H, T, D) that know where they are."""
    if isinstance(position, AddedToProjections):
        return g("Add", x, _encoded(g, position.encoding, positions))
    if not isinstance(position, Rotary):
        return x
    index = np.arange(2 * len(position.angles))
    first, second = index.reshape(-1, 2).T if position.interleaved else index.reshape(2, -1)
    angles, other = np.zeros(len(index)), index.copy()
    angles[first], angles[second] = -position.angles, position.angles  # a cos - b sin, b cos + a sin
    other[first], other[second] = second, first
    turns = _turns(g, positions, angles)
    cos, sin = g("Sin", g("Add", turns, np.array(pi / 2))), g("Sin", turns)  # older runtimes have no Cos of float64
    cos, sin = g.cast(cos, "FLOAT"), g.cast(sin, "FLOAT")
    return g("Add", g("Mul", x, cos), g("Mul", g("Gather", x, other, axis=3), sin))


def memorise(g: Graph, layer: MultiheadAttention, x: str, positions: str | None = None) -> Pair:
    """Keys and values of a memory (B, S, C) -> (B, G, S, D)."""
    k, v = (_split(g, apply(g, to, x), layer.config.groups) for to in (layer.to_k, layer.to_v))
    if positions is not None:
        k = _placed(g, layer.position, k, positions)
        v = _placed(g, layer.position, v, positions) if isinstance(layer.position, AddedToProjections) else v
    if isinstance(layer.score, MLP | Bilinear):
        k = apply(g, layer.score.from_key if isinstance(layer.score, MLP) else layer.score.to_query_space, k)
    return k, v


def attend(g: Graph, layer: MultiheadAttention, x: str, memory: Pair, mask: str, at: Pair | None = None) -> str:
    """x (B, T, C) looks at the memory -> (B, T, C); `at` are the places of queries and keys."""
    heads, groups, position = layer.config.num_heads, layer.config.groups, layer.position
    q = _split(g, apply(g, layer.to_q, x), heads)
    q = _placed(g, position, q, at[0]) if at else q
    if heads != groups:
        shared = np.repeat(np.arange(groups), heads // groups)
        memory = g("Gather", memory[0], shared, axis=1), g("Gather", memory[1], shared, axis=1)
    scores = g("Add", _pairs(g, layer, q, memory[0]), mask)
    far = g("Sub", at[1], g("Unsqueeze", at[0], [1])) if at else ""  # (T, S)
    if isinstance(position, Alibi):
        slopes = position.slopes.view(-1, 1, 1)
        scores = g("Sub", scores, g("Mul", g.cast(g("Abs", far), "FLOAT"), slopes))
    if isinstance(position, Shaw):
        row = g("Add", g("Clip", far, -position.clip, position.clip), position.clip)
        asked = g("Unsqueeze", g("Mul", q, layer.config.head_width**-0.5), [3])  # -> (B, H, T, 1, D)
        near = g("Transpose", g("Gather", position.key_table, row), perm=[0, 2, 1])  # (T, S, D) -> (T, D, S)
        weights = g("Softmax", g("Add", scores, g("Squeeze", g("MatMul", asked, near), [3])))
        mixed = g("MatMul", g("Unsqueeze", weights, [3]), g("Gather", position.value_table, row))  # -> (B, H, T, 1, D)
        x = g("Add", g("MatMul", weights, memory[1]), g("Squeeze", mixed, [3]))
    else:
        x = g("MatMul", g("Softmax", scores), memory[1])
    return apply(g, layer.to_out, g("Reshape", g("Transpose", x, perm=[0, 2, 1, 3]), [0, 0, -1]))


def _pairs(g: Graph, layer: MultiheadAttention, q: str, k: str) -> str:
    score = layer.score
    if not isinstance(score, MLP):
        width = layer.config.width if layer.config.projection is None else layer.config.head_width
        return g("MatMul", g("Mul", q, float(score.scale(width) or 1.0)), g("Transpose", k, perm=[0, 1, 3, 2]))
    q = g("Unsqueeze", apply(g, score.from_query, q), [3])
    x = g("Tanh", g("Add", q, g("Unsqueeze", k, [2])))  # -> (B, H, T, S, A)
    for hidden in score.layers:
        x = g("Tanh", apply(g, hidden, x))
    return g("Squeeze", apply(g, score.to_score, x), [4])


def _split(g: Graph, x: str, heads: int) -> str:
    return g("Transpose", g("Reshape", x, [0, 0, heads, -1]), perm=[0, 2, 1, 3])  # -> (B, H, T, D)


def stack(
    g: Graph, trunk: Stack, x: str, at: Pair, mask: str, past: list[Pair] | None = None, memory: Memory | None = None
) -> tuple[str, list[Pair]]:
    """The trunk's output, and what its layers keep of all so far."""
    kept = []
    for i, block in enumerate(trunk.blocks):
        assert isinstance(block, Block)
        seen = _enter(g, block.self_residual, x)
        k, v = memorise(g, block.self_attention, seen, at[0])
        if past:
            k, v = (g("Concat", old, new, axis=2) for old, new in zip(past[i], (k, v), strict=True))
        kept.append((k, v))
        x = _leave(g, block.self_residual, x, attend(g, block.self_attention, seen, (k, v), mask, at))
        if memory and block.cross_attention and block.cross_residual:
            seen = _enter(g, block.cross_residual, x)
            x = _leave(g, block.cross_residual, x, attend(g, block.cross_attention, seen, memory[0][i], memory[1]))
        said = apply(g, block.feedforward, _enter(g, block.feedforward_residual, x))
        x = _leave(g, block.feedforward_residual, x, said)
    return apply(g, trunk.norm, x), kept


def _enter(g: Graph, residual: Residual, x: str) -> str:
    return apply(g, residual.norm, x) if residual.placement == "pre" else x


def _leave(g: Graph, residual: Residual, x: str, said: str) -> str:
    x = g("Add", x, said)
    return apply(g, residual.norm, x) if residual.placement == "post" else x


def recur(g: Graph, layers: RecurrentLayers, x: str, state: str, lengths: str = "") -> Pair:
    """Each step's output (B, T, C), and the state after the last: (B, layers, directions, vectors, width)."""
    ends = []
    for i, layer in enumerate(layers.layers):
        assert isinstance(layer, nn.RNNBase)
        own = g("Gather", state, i, axis=1)  # -> (B, directions, vectors, width)
        vectors = range(layers.config.num_states)
        starts = [g("Transpose", g("Gather", own, j, axis=2), perm=[1, 0, 2]) for j in vectors]
        how = {"hidden_size": layer.hidden_size, "direction": "bidirectional" if layer.bidirectional else "forward"}
        how |= {"linear_before_reset": 1} if layer.mode == "GRU" else {}
        steps = g("Transpose", x, perm=[1, 0, 2])  # ONNX keeps time first, and batch second in states
        op = layer.mode.removesuffix("_TANH")
        y, *last = g.several(op, 1 + len(vectors), steps, *_gates(layer), lengths, *starts, **how)
        y = g("Reshape", g("Transpose", y, perm=[2, 0, 1, 3]), [0, 0, -1])  # (T, directions, B, C') -> (B, T, C)
        x = g("Add", x, y) if layers.config.residual and i else y
        last = [g("Unsqueeze", g("Transpose", v, perm=[1, 0, 2]), [1, 3]) for v in last]
        ends.append(g("Concat", *last, axis=3))
    return x, g("Concat", *ends, axis=1)


def _gates(layer: nn.RNNBase) -> list[NDArray[Any]]:
    """Weights of words, of states, and all biases, for each direction; the gates in ONNX's order."""
    order = {"RNN_TANH": [0], "LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}[layer.mode]

    def sorted_gates(name: str) -> Tensor:
        ends = ("", "_reverse") if layer.bidirectional else ("",)
        both = torch.stack([getattr(layer, f"{name}_l0{end}").detach().float().cpu() for end in ends])
        return both.unflatten(1, (len(order), -1))[:, order].flatten(1, 2)

    biases = torch.cat((sorted_gates("bias_ih"), sorted_gates("bias_hh")), 1)
    return [x.numpy() for x in (sorted_gates("weight_ih"), sorted_gates("weight_hh"), biases)]


FUNCTIONS: dict[Callable[[Tensor], Tensor], Callable[[Graph, str], str]] = {
    F.relu: lambda g, x: g("Relu", x),
    F.gelu: lambda g, x: g("Gelu", x),
    ACTIVATIONS["gelu_tanh"][0]: lambda g, x: g("Gelu", x, approximate="tanh"),
    F.silu: lambda g, x: g("Mul", x, g("Sigmoid", x)),
}
LAYERS: dict[type[nn.Module], Callable[[Graph, Any, str], str]] = {
    nn.Identity: lambda g, layer, x: x,
    nn.Linear: _linear,
    nn.ReLU: lambda g, layer, x: g("Relu", x),
    nn.Sequential: lambda g, layers, x: reduce(lambda y, layer: apply(g, layer, y), layers, x),
    nn.LayerNorm: lambda g, norm, x: g("LayerNormalization", x, norm.weight, norm.bias, epsilon=norm.eps),
    nn.RMSNorm: _rms,
    FeedForward: _feedforward,
}
# What can be drawn; the subclasses that are not here compute something else.
PARTS = {Block, Embedding, MultiheadAttention, OutputHead, RecurrentLayers, Residual, Stack, nn.ModuleList, *LAYERS}
PARTS |= {Added, AddedToProjections, Alibi, Position, Rotary, Shaw, Index, Learned, Sinusoid}
PARTS |= {Additive, Bilinear, Dot, MLP, ScaledDot, nn.GRU, nn.LSTM, nn.RNN}
