"""Malformed models and calls for the native engine: each has to be answered or refused, and none may crash.

    python -m bench.abuse [COUNT]       (100,000 in some minutes; half are folders, half are calls)

With the sanitizers, which end the process at the first fault:

    REGARD_NATIVE_FLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=undefined" ASAN_OPTIONS=detect_leaks=0 \\
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" python -m bench.abuse 20000
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Greedy, Sample, Search
from regard.engine.native import CJob, NativeEngine
from regard.engine.prepare import NATIVE, Prepared, Settings, prepared_of, write_prepared
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, ModelConfig, TransformerConfig
from regard.progress import Progress
from regard.tasks.folder import load_folder, save_settings, save_tokenizers

SEARCHES: list[Search] = [Greedy(max_length=5), Beam(size=3, num_best=2, max_length=5), Sample(max_length=5, top_k=4)]
NUMBERS = [0, -1, 1, 2, 3, 7, 15, 16, 17, 255, 1 << 15, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
REALS = [0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan")]


def a_model(draw: random.Random) -> tuple[ModelConfig, Prepared]:
    position = PositionConfig(kind=draw.choice(["sinusoid", "rotary", "alibi", "none"]))
    shape = dict(width=16, hidden=8, num_heads=4, position=position, activation=draw.choice(["relu", "swiglu", "gelu"]))
    shape |= dict(placement=draw.choice(["pre", "post"]), norm=draw.choice(["layer", "rms"]))
    config: Any = GptConfig(vocabulary=40, num_layers=1, **shape)  # type: ignore[arg-type]
    if draw.random() < 0.6:
        sizes = dict(source_vocabulary=40, target_vocabulary=40, encoder_layers=1, decoder_layers=1)
        config = TransformerConfig(**sizes, **shape)  # type: ignore[arg-type]
    return config, prepared_of(build(config, draw.randrange(99)), small=draw.random() < 0.5)


def decode(prepared: Prepared, draw: random.Random) -> None:
    engine = NativeEngine(prepared, threads=draw.choice([1, 2]))
    engine.level = draw.choice([0, 1, 2, engine.level])
    sources = [[draw.randrange(40) for _ in range(draw.randrange(1, 6))] for _ in range(draw.randrange(4))]
    engine.decode(sources, draw.choice(SEARCHES))


def broken_folder(draw: random.Random, config: ModelConfig, prepared: Prepared, folder: Path) -> None:
    """One of its files is damaged, or its settings lie."""
    save_settings(folder, config, "lm" if isinstance(config, GptConfig) else "translation", Beam(), 20, {})
    write_prepared(folder / NATIVE, prepared)
    if draw.random() < 0.5:
        path = draw.choice([folder / NATIVE, folder / NATIVE, folder / "config.json"])
        data = bytearray(path.read_bytes())
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(min(len(data), draw.choice([8, 400, len(data)])))
            data[place : place + draw.choice([0, 1, 1, 4])] = draw.randbytes(draw.choice([0, 1, 1, 4]))
        path.write_bytes(data)
    else:
        described = json.loads((folder / "config.json").read_text())
        fields = [name for name, value in described["model"].items() if type(value) in (int, float)]
        described["model"][draw.choice(fields)] = draw.choice([*NUMBERS[:11], *REALS[:4]])
        (folder / "config.json").write_text(json.dumps(described))
        arrays = list(prepared.arrays)
        if draw.random() < 0.5:
            i = draw.randrange(len(arrays))
            arrays[i] = draw.choice([arrays[i][:-1], arrays[i].T.copy(), arrays[i][:, :-1], np.full_like(arrays[i], 3)])
            order = " ".join(map(str, range(len(arrays))))
            (folder / NATIVE).write_bytes(
                save({str(i): np.ascontiguousarray(a) for i, a in enumerate(arrays)}, {"order": order})
            )
    decode(load_folder(folder).native(), draw)


def broken_call(draw: random.Random, prepared: Prepared) -> None:
    """Settings, tensors or a job that lie about themselves; what they point at stays real."""
    if draw.random() < 0.4:
        settings = {name: getattr(prepared.settings, name) for name, *_ in Settings._fields_}
        name = draw.choice(list(settings))
        settings[name] = draw.choice(NUMBERS) if isinstance(settings[name], int) else draw.choice(REALS)
        decode(replace(prepared, settings=Settings(**settings)), draw)
    elif draw.random() < 0.3:
        arrays = list(prepared.arrays)
        draw.choice(
            [arrays.pop, lambda: arrays.insert(draw.randrange(len(arrays)), arrays[0]), lambda: draw.shuffle(arrays)]
        )()
        decode(replace(prepared, arrays=arrays), draw)
    else:
        engine = NativeEngine(prepared)
        call, numbers = engine.library.regard_decode, [name for name, kind in CJob._fields_ if kind is ctypes.c_int64]

        def lying(handle: Any, job: Any, *rest: Any) -> int:
            name = draw.choice([n for n in numbers if n != "sentences" and not n.endswith(("_rows", "_room"))])
            if name != "threads":  # as many as asked for are started
                setattr(job._obj, name, draw.choice([n for n in NUMBERS if -(1 << 62) < n < (1 << 62)]))
            return int(call(handle, job, *rest))

        engine.library = type("Lying", (), {"regard_decode": staticmethod(lying), "regard_close": lambda *_: None})()
        ids = [draw.choice([draw.randrange(40), *NUMBERS[:7], 40, 1 << 30]) for _ in range(3)]
        engine.decode([ids, [1]], draw.choice(SEARCHES))


def main(count: int) -> None:
    draw, refused = random.Random(0), 0
    words = Tokenizer.train(iter(["a b c d e f g h"] * 9), TokenizerConfig(kind="bpe", vocabulary=300))
    models = [a_model(draw) for _ in range(24)]
    with tempfile.TemporaryDirectory() as name, Progress(count, "abuse") as progress:
        folder = Path(name)
        save_tokenizers(folder, Tokenizers(words, words))
        for i in range(count):
            config, prepared = draw.choice(models)
            try:
                broken_call(draw, prepared) if i % 2 else broken_folder(draw, config, prepared, folder)
            except (UserError, struct.error, OverflowError):
                refused += 1
            progress.update(i + 1)
    print(f"{count:,} malformed folders and calls: {refused:,} refused, {count - refused:,} harmless, none crashed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
