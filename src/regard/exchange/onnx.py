"""Models as ONNX graphs: one that reads a source, and one that takes a step of writing, for any runtime.

A state of decoding becomes named values: what encoder.onnx gives, decoder.onnx takes by the same name, and what a step
changes it gives back as next.<name>.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange import onnxgraph as draw
from regard.exchange.onnxgraph import FUNCTIONS, PARTS, Graph, Pair, apply
from regard.exchange.onnxrun import FORMAT, NEXT, SETTINGS, VERSION
from regard.files import write
from regard.models.gpt import Gpt
from regard.models.lstm import RecurrentText
from regard.models.recurrent import Recurrent
from regard.models.transformer import Transformer
from regard.nn.parts import FeedForward
from regard.shapes import Padded

LARGEST = 2**31 - 2**20  # bytes of weights that fit into a file of this format
Kept = Mapping[str, Tensor]  # of one row and a source of one token: the names and shapes of a state
Values = dict[str, str]  # the values of a graph, by what they are


def write_onnx(folder: Path, model: Any) -> None:
    """encoder.onnx (where there is a source), decoder.onnx, and what a runner must know; or every reason why not."""
    if reasons := _refusals(model):
        raise UserError(f"ONNX graphs are not drawn for this model: {'; '.join(reasons)}")
    two = model.config.encoder_layers > 0
    with torch.no_grad():
        one = torch.ones(1, dtype=torch.long)
        kept = _named(model.encode(Padded(one[None] * 0, one)) if two else model.nothing_yet(1))
    # What is not told by the source begins as zeros, of which there may be none.
    zeros = {name: list(x.shape[1:]) for name, x in kept.items() if not two or x.numel() == 0}
    settings = {"format": FORMAT, "version": VERSION, "start": model.start, "end": model.end, "zeros": zeros}
    settings["longest"] = getattr(model, "longest", None)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / SETTINGS, json.dumps(settings, indent=1).encode())
    if two:
        told = {name: x for name, x in kept.items() if name not in {*zeros, "lengths"}}
        write(folder / "encoder.onnx", _reading(model, told))
    write(folder / "decoder.onnx", _writing(model, kept))


def _refusals(model: Any) -> list[str]:
    if type(model) not in STEPS:
        return [f"{type(model).__name__} does not write word after word, as {', '.join(x.__name__ for x in STEPS)} do"]
    unknown = sorted({type(part).__name__ for part in model.modules() if type(part) not in {*PARTS, *STEPS}})
    reasons = [f"{name} is no part that is known here" for name in unknown]
    if any(isinstance(part, FeedForward) and part.function not in FUNCTIONS for part in model.modules()):
        reasons.append(f"activation {model.config.activation} is not known here")
    if (size := 4 * sum(p.numel() for p in model.parameters())) > LARGEST:
        reasons.append(f"{size:,} bytes of weights are more than the {LARGEST:,} of a file")
    return reasons


def _named(state: Any, name: str = "") -> dict[str, Tensor]:
    """The tensors of a state, by their paths; which sentence a row belongs to is the runner's to know."""
    if isinstance(state, Tensor):
        return {} if name == "rows" else {name.removeprefix("mask."): state}
    parts = vars(state).items() if is_dataclass(state) else enumerate(state) if isinstance(state, tuple) else ()
    return {k: x for at, part in parts for k, x in _named(part, f"{name}.{at}".removeprefix(".")).items()}


def _reading(model: Any, told: Kept) -> bytes:
    g = Graph()
    tokens, lengths = g.input("tokens", "INT64", ["rows", "source"]), g.input("lengths", "INT64", ["rows"])
    values = READERS[type(model)](g, model, tokens, lengths)
    for name, x in told.items():
        g.output(name, values[name], _shape(name, x))
    return g.bytes()


def _writing(model: Any, kept: Kept) -> bytes:
    g = Graph()
    tokens = g.input("tokens", "INT64", ["rows", 1 if model.config.encoder_layers else "tokens"])
    for name, part in kept.items():
        g.input(name, "INT64" if name == "lengths" else "FLOAT", _shape(name, part))
    x, values = STEPS[type(model)](g, model, tokens)
    last = g("Gather", x, -1, axis=1)  # (N, T, C) -> (N, C)
    logits = g("MatMul", last, g("Transpose", model.head.table, perm=[1, 0]))
    if model.head.bias is not None:
        logits = g("Add", logits, model.head.bias)
    g.output("logits", logits, ["rows", len(model.head.table)])
    for name, value in values.items():
        g.output(NEXT + name, value, _shape(name, kept[name], "grown"))
    return g.bytes()


def _shape(name: str, x: Tensor, length: str = "past") -> list[int | str]:
    shape: list[int | str] = ["rows", *x.shape[1:]]
    if x.dim() == 4:  # keys or values
        shape[2] = "source" if name.startswith("memory") else length
    return shape


def _pairs(name: str, number: int) -> list[Pair]:
    return [(f"{name}.{i}.k", f"{name}.{i}.v") for i in range(number)]


def _read_transformer(g: Graph, model: Any, tokens: str, lengths: str) -> Values:
    at = draw.places(g, tokens)
    x = draw.embed(g, model.source_embedding, tokens, at[0])
    x, _ = draw.stack(g, model.encoder, x, at, draw.padding(g, lengths, at[1]))
    values: Values = {}
    for names, block in zip(_pairs("memory", len(model.decoder.blocks)), model.decoder.blocks, strict=True):
        values |= zip(names, draw.memorise(g, block.cross_attention, x), strict=True)
    return values


def _step_stack(g: Graph, model: Any, tokens: str) -> tuple[str, Values]:
    past, window = _pairs("past.layers", len(model.decoder.blocks)), getattr(model.config, "context", None)
    at = draw.places(g, tokens, past[0][0])
    if not model.config.encoder_layers:
        x, memory = draw.embed(g, model.embedding, tokens, at[0]), None
    else:
        x, layers = draw.embed(g, model.target_embedding, tokens, at[0]), _pairs("memory", len(past))
        memory = layers, _source_mask(g, layers[0][0])
    x, kept = draw.stack(g, model.decoder, x, at, draw.causal(g, *at, window), past, memory)
    return x, {name: value for names, kv in zip(past, kept, strict=True) for name, value in zip(names, kv, strict=True)}


def _source_mask(g: Graph, keys: str) -> str:
    return draw.padding(g, "lengths", g("Range", 0, draw.size(g, keys, 2), 1))


def _read_recurrent(g: Graph, model: Any, tokens: str, lengths: str) -> Values:
    words = draw.embed(g, model.source_embedding, tokens)
    shape = model.encoder.state_shape(1)[1:]
    nothing = g("Expand", 0.0, g("Concat", g("Shape", lengths), list(shape), axis=0))
    x, state = draw.recur(g, model.encoder, words, nothing, g.cast(lengths, "INT32"))
    final = g("Reshape", g("Transpose", state, perm=[0, 1, 3, 2, 4]), [0, 0, 0, -1])  # -> (B, layers, vectors, C)
    top, hidden = g("Gather", final, -1, axis=1), final
    if model.bridge is not None:
        hidden = g("Tanh", apply(g, model.bridge, g("Reshape", top, [0, -1])))
        hidden = g("Reshape", hidden, [0, model.config.decoder_layers, -1, model.config.width])
    values = {"hidden": g("Unsqueeze", hidden, [2]), "encoding": g("Gather", top, 0, axis=1)}
    if model.attention is not None:
        values["memory.k"], values["memory.v"] = draw.memorise(g, model.attention, x)
    return values


def _step_recurrent(g: Graph, model: Any, tokens: str) -> tuple[str, Values]:
    words, looking, hidden = draw.embed(g, model.target_embedding, tokens), model.config.attention, "hidden"

    def look(query: str) -> str:
        query = g("Concat", query, words, axis=2) if looking.query_word else query
        return draw.attend(g, model.attention, query, ("memory.k", "memory.v"), _source_mask(g, "memory.k"))

    context = g("Unsqueeze", "encoding", [1]) if model.config.encoding == "every" else None
    if looking is not None and looking.query == "previous":
        top = g("Gather", g("Gather", hidden, -1, axis=1), 0, axis=1)  # -> (N, vectors, C)
        context = look(g("Gather", top, [0], axis=1))
    x, hidden = draw.recur(g, model.decoder, g("Concat", words, context, axis=2) if context else words, hidden)
    if looking is not None and looking.query == "current":
        context = look(x)
    x = g("Concat", x, context, axis=2) if context else x
    return g("Tanh", apply(g, model.readout, x)) if model.readout is not None else x, {"hidden": hidden}


def _step_text(g: Graph, model: RecurrentText, tokens: str) -> tuple[str, Values]:
    x, hidden = draw.recur(g, model.layers, draw.embed(g, model.embedding, tokens), "hidden")
    return apply(g, model.readout, x), {"hidden": hidden}


READERS: dict[type, Callable[..., Values]] = {Transformer: _read_transformer, Recurrent: _read_recurrent}
STEPS: dict[type, Callable[..., tuple[str, Values]]] = {
    Transformer: _step_stack,
    Gpt: _step_stack,
    Recurrent: _step_recurrent,
    RecurrentText: _step_text,
}
