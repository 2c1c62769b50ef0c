"""llama2.c's binary: seven numbers, then all weights of a Llama in float32, in one order."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.attention.config import PositionConfig
from regard.bounds import memory
from regard.errors import UserError
from regard.files import open_regular
from regard.models.config import GptConfig

HEADER = struct.Struct("<7i")


def read_llama2c(path: Path) -> tuple[GptConfig, dict[str, Tensor], int]:
    """Settings, weights under our names, and the longest text that it was trained on."""
    with open_regular(path, memory() // 4) as file:
        size, head = os.fstat(file.fileno()).st_size, file.read(HEADER.size)
    if len(head) < HEADER.size:
        raise UserError(f"{path}: {size} bytes are no model of llama2.c")
    width, hidden, layers, heads, kv_heads, vocabulary, longest = HEADER.unpack(head)
    config = GptConfig(
        vocabulary=abs(vocabulary),
        tied=vocabulary > 0,  # its way to say so
        width=width,
        hidden=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        norm="rms",
        placement="pre",
        activation="swiglu",
        bias=False,
        position=PositionConfig(kind="rotary"),
        start=1,
        end=1,
        context=longest,
    )
    shared, half = config.attention.groups * config.attention.head_width, config.attention.head_width // 2
    attention, forward = "self_attention", "feedforward"
    shapes = {
        "embedding.table": (1, abs(vocabulary), width),
        "self_residual.norm.weight": (layers, width),
        f"{attention}.to_q.weight": (layers, width, width),
        f"{attention}.to_k.weight": (layers, shared, width),
        f"{attention}.to_v.weight": (layers, shared, width),
        f"{attention}.to_out.weight": (layers, width, width),
        "feedforward_residual.norm.weight": (layers, width),
        f"{forward}.gate.weight": (layers, hidden, width),
        f"{forward}.down.weight": (layers, width, hidden),
        f"{forward}.up.weight": (layers, hidden, width),
        "decoder.norm.weight": (1, width),
        "cosines": (longest, half),  # of positions, which we make ourselves
        "sines": (longest, half),
    }
    if not config.tied:
        shapes["head.table"] = (1, abs(vocabulary), width)
    needed = HEADER.size + 4 * sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes.values())
    if needed != size or longest < 1:
        raise UserError(f"{path}: a model of this shape has {needed:,} bytes, and the file {size:,}; is it llama2.c's?")
    numbers, at, weights = np.fromfile(path, "<f4", offset=HEADER.size), 0, dict[str, Tensor]()
    if not np.isfinite(numbers).all():
        raise UserError(f"{path}: holds numbers that are not finite; the file is damaged")
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        part = torch.from_numpy(numbers[at : at + count].reshape(shape).copy())
        at += count
        if name.startswith(("embedding", "decoder", "head")):
            weights[name] = part[0]
        elif name not in ("cosines", "sines"):
            weights |= {f"decoder.blocks.{i}.{name}": part[i] for i in range(layers)}
    return config, weights, longest
