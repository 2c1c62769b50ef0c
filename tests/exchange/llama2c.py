"""stories260K, a real Llama in llama2.c's binary: seven numbers, then all weights in float32, in one order.

python -m tests.exchange.llama2c ../shared/data/weights/stories260K runs/stories    (as a folder of Regard's)
"""

from __future__ import annotations

import json
import struct
import sys
from math import prod
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers

from regard.attention.config import PositionConfig
from regard.data.tokenizer import ForeignTokenizer, Tokenizers
from regard.decode.config import Sample
from regard.exchange.words import SPACE, merges_of
from regard.models.config import GptConfig
from regard.models.gpt import Gpt
from regard.tasks.folder import Loaded, loaded_of, save_model, save_tokenizers


def stories(folder: Path) -> Loaded:
    path = folder / "stories260K.bin"
    raw = path.read_bytes()
    width, hidden, layers, heads, groups, vocabulary, longest = struct.unpack("<7i", raw[:28])
    assert vocabulary > 0, "below 0 the output has a table of its own"
    shape = GptConfig(vocabulary=vocabulary, width=width, hidden=hidden, num_layers=layers, num_heads=heads,
                      num_kv_heads=groups, norm="rms", placement="pre", activation="swiglu", bias=False,
                      position=PositionConfig(kind="rotary"), start=1, end=1, context=longest)  # fmt: skip
    model, at = Gpt(shape), 28
    shared = groups * width // heads
    for name, *size in (
        ("embedding.table", vocabulary, width),
        ("self_residual.norm.weight", layers, width),
        ("self_attention.to_q.weight", layers, width, width),
        ("self_attention.to_k.weight", layers, shared, width),
        ("self_attention.to_v.weight", layers, shared, width),
        ("self_attention.to_out.weight", layers, width, width),
        ("feedforward_residual.norm.weight", layers, width),
        ("feedforward.gate.weight", layers, hidden, width),
        ("feedforward.down.weight", layers, width, hidden),
        ("feedforward.up.weight", layers, hidden, width),
        ("decoder.norm.weight", width),
    ):
        part = torch.from_numpy(np.frombuffer(raw, "<f4", prod(size), at).reshape(size).copy())
        at += 4 * prod(size)
        own = {name: part}
        if len(size) > 1 and name != "embedding.table":
            own = {f"decoder.blocks.{i}.{name}": part[i] for i in range(layers)}
        assert not model.load_state_dict(own, strict=False).unexpected_keys
    assert len(raw) - at == 4 * longest * width // heads  # cosines and sines of positions, which we make ourselves
    words = tokenizer(folder / "tok512.bin", vocabulary)
    return loaded_of("lm", Sample(), model, Tokenizers(words, words), longest, path)


def tokenizer(path: Path, vocabulary: int) -> ForeignTokenizer:
    """The longest piece, then score, length and bytes of each; the pair of the best score merges first."""
    data, at, scored = path.read_bytes(), 4, list[tuple[str, float]]()
    for _ in range(vocabulary):
        score, length = struct.unpack_from("<fi", data, at)
        scored.append((data[at + 8 : at + 8 + length].decode().replace(" ", SPACE), score))
        at += 8 + length
    pieces = {piece: i for i, (piece, _) in enumerate(scored)}
    library = Library(models.BPE(pieces, merges_of(scored), unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    return ForeignTokenizer(json.loads(library.to_str()), {0: "<unk>", 1: "<s>", 2: "</s>"}, vocabulary, ([1], []))


if __name__ == "__main__":
    loaded, out = stories(Path(sys.argv[1])), Path(sys.argv[2])
    out.mkdir(parents=True)
    save_tokenizers(out, loaded.tokenizers)
    save_model(out, loaded.model, loaded.task, loaded.search, loaded.max_length, {})
