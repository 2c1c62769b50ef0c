from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.config import PositionConfig
from regard.decode.config import Beam, Greedy, Hypothesis, Sample, Search
from regard.engine.build import compiler
from regard.engine.native import NativeEngine
from regard.engine.prepare import Prepared, prepare, prepared_of
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, TransformerConfig

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def a_translator(**changes: Any) -> TransformerConfig:
    shape = dict(source_vocabulary=37, target_vocabulary=53, width=20, hidden=28, num_heads=4)
    return TransformerConfig(**(shape | dict(encoder_layers=2, decoder_layers=3) | changes))


def a_teller(**changes: Any) -> GptConfig:
    shape = dict(vocabulary=61, width=24, hidden=40, num_heads=6, num_kv_heads=2, num_layers=3, placement="pre")
    return GptConfig(**(shape | changes))


ROTARY = PositionConfig(kind="rotary")
CONFIGS = {
    "plain": a_translator(),
    "output tied": a_translator(tied="output"),
    "before": a_translator(placement="pre", activation="gelu", output_bias=True),
    "all tied": a_translator(source_vocabulary=53, tied="all", scaled_embedding=False, embedding_norm=True),
    "rotary": a_translator(position=ROTARY, width=24),
    "rotary, halves": a_translator(position=PositionConfig(kind="rotary", layout="halves"), width=24),
    "sinusoids, halves": a_translator(position=PositionConfig(layout="halves"), score="dot"),
    "learned": a_translator(position=PositionConfig(kind="learned", max_length=30)),
    "alibi, six heads": a_translator(position=PositionConfig(kind="alibi"), num_heads=5, width=35),
    "gated": a_translator(activation="swiglu", norm="rms", placement="pre", bias=False),
    "no norms, shared keys": a_translator(placement="none", num_kv_heads=1, activation="geglu"),
    "wide": a_translator(width=160, hidden=200, num_heads=2, placement="pre", position=ROTARY),
    "gpt": a_teller(position=PositionConfig(kind="learned", max_length=40), activation="gelu_tanh", num_kv_heads=None),
    "llama": a_teller(norm="rms", activation="swiglu", bias=False, position=ROTARY),
    "window": a_teller(position=ROTARY, context=5, tied=False),
    "alibi": a_teller(position=PositionConfig(kind="alibi"), activation="silu"),
}
SEARCHES: dict[str, Search] = {
    "greedy": Greedy(max_length=12),
    "beam": Beam(size=4, max_length=12, num_best=3),
    "gnmt": Beam(size=3, max_length=9, length_penalty=0.6, length_rule="gnmt", never=(5, 9)),
    "ratio": Beam(size=2, max_ratio=0.5),
    "sample": Sample(max_length=12, seed=3),
    "cold": Sample(max_length=12, seed=1, temperature=0.7, top_k=9),
    "nucleus": Sample(max_length=12, top_p=0.8, never=(5,)),
}


def made(name: str) -> tuple[Any, Prepared]:
    """A model with loud weights, so that it says this and that, and the same for the engine."""
    torch.manual_seed(0)
    model = build(CONFIGS[name]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(
                0, (0.7 if parameter.dim() > 1 else 0.3) * (0.2 if model.config.placement == "none" else 1)
            )
    return model, prepared_of(model)


def texts(words: int = 37, count: int = 25) -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(3, words, size=int(draw.integers(1, 18))).tolist() for _ in range(count)]


def the_same(reference: list[list[Hypothesis]], found: list[list[Hypothesis]]) -> None:
    """Scores to 1e-4, and words, but for hypotheses that are tied."""
    for there, here in zip(reference, found, strict=True):
        assert len(here) == len(there)
        for a, b in zip(there, here, strict=True):
            assert b.log_prob == pytest.approx(a.log_prob, abs=1e-4)
            assert b.score == pytest.approx(a.score, abs=1e-4)
            tied = sum(abs(other.score - a.score) < 1e-4 for other in there) > 1
            assert b.tokens == a.tokens or tied


@pytest.mark.parametrize(
    ("name", "search"),
    [  # every model, and every search, with some of the others; all with all in the full ring
        pytest.param(name, search, id=f"{name}-{kind}", marks=[] if (i + j) % 3 == 0 else pytest.mark.full)
        for i, name in enumerate(CONFIGS)
        for j, (kind, search) in enumerate(SEARCHES.items())
    ],
)
def test_native_says_what_torch_says(name: str, search: Search) -> None:
    model, prepared = made(name)
    reference = TorchEngine(model).decode(texts(), search)
    found = NativeEngine(prepared).decode(texts(), search)
    the_same(reference, found)


@pytest.mark.parametrize("name", ["learned", "gpt"])
def test_outputs_end_with_the_learned_positions_in_both_engines(name: str) -> None:
    model, prepared = made(name)
    for search in (Greedy(never=(2,)), Beam(size=3, never=(2,))):  # without its end mark, an output reaches its limit
        reference = TorchEngine(model).decode(texts(), search)
        the_same(reference, NativeEngine(prepared).decode(texts(), search))
        positions, read = (40, [len(text) for text in texts()]) if name == "gpt" else (30, [1] * len(texts()))
        assert [len(best[0].tokens) for best in reference] == [positions + 1 - prompt for prompt in read]


@pytest.mark.parametrize("ratio", [0.53, 1.1])  # 0.53 * 100 is 53 in double precision, 52.99.. in single
def test_both_engines_have_the_same_limits(ratio: float) -> None:
    model, prepared = made("rotary")
    search, sources = Greedy(max_ratio=ratio, never=(2,)), [[5] * length for length in (1, 10, 100)]
    lengths = [
        [len(best[0].tokens) for best in engine.decode(sources, search)]
        for engine in (TorchEngine(model), NativeEngine(prepared))
    ]
    assert lengths[0] == lengths[1] == [int(len(source) * ratio + 10) for source in sources]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", ["plain", "wide", "llama"])
def test_every_instruction_set_says_the_same(name: str, level: int) -> None:
    model, prepared = made(name)
    engine = NativeEngine(prepared)
    if level > engine.level:
        pytest.skip("this processor has no such instructions")
    engine.level = level
    reference = TorchEngine(model).decode(texts(), SEARCHES["beam"])
    the_same(reference, engine.decode(texts(), SEARCHES["beam"]))


@pytest.mark.parametrize("name", ["plain", "wide", "llama", "gpt"])
def test_bytes_are_near(name: str) -> None:
    """Each weight is off by half a step of its row at most, so log-probabilities are off by little."""
    model, _ = made(name)
    prepared = prepared_of(model, small=True)
    engine, found = NativeEngine(prepared), []
    for level in range(engine.level + 1):
        engine.level = level
        found.append(engine.decode(texts(), SEARCHES["greedy"]))
    reference = TorchEngine(model).decode(texts(), SEARCHES["greedy"])
    for here in found:
        first = [(a[0].tokens[:2], b[0].tokens[:2]) for a, b in zip(here, reference, strict=True)]
        assert sum(a == b for a, b in first) >= 0.6 * len(first)
        assert [h.tokens for (h,) in here] == [h.tokens for (h,) in found[0]]  # the bytes are the same everywhere


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("name", ["rotary", "llama"])
def test_batches_and_threads_change_no_bit(name: str, search: str, small: bool) -> None:
    prepared = prepared_of(made(name)[0], small=small)
    many = texts(count=150)
    reference = NativeEngine(prepared, batch_size=1).decode(many, SEARCHES[search])
    for threads in (1, 2):
        for size in (7, 64):
            assert NativeEngine(prepared, threads=threads, batch_size=size).decode(many, SEARCHES[search]) == reference


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("name", ["plain", "llama"])
def test_an_output_ends_where_its_listener_says(name: str, search: str) -> None:
    model, prepared = made(name)

    def enough(said: list[int]) -> bool:
        return len(said) > 3 or 8 in said

    engines = TorchEngine(model), NativeEngine(prepared)
    reference, found = (engine.decode(texts(), SEARCHES[search], heard=enough) for engine in engines)
    the_same(reference, found)
    assert max(len(h.tokens) for hypotheses in found for h in hypotheses) <= 5
    counted: list[int] = []
    NativeEngine(prepared, threads=2).decode(texts(), SEARCHES[search], tick=counted.append)
    assert sorted(counted) == list(range(1, len(texts()) + 1))


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("name", ["plain", "llama"])
def test_an_output_begins_as_it_must(name: str, search: str) -> None:
    model, prepared = made(name)
    prefixes = [[4 + i % 30] * (i % 4) for i in range(len(texts()))]
    engines = TorchEngine(model), NativeEngine(prepared)
    reference, found = (engine.decode(texts(), SEARCHES[search], prefixes=prefixes) for engine in engines)
    the_same(reference, found)
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert all(h.tokens[: len(prefix)] == prefix for h in hypotheses)


@pytest.mark.parametrize("name", ["rotary", "gpt"])
def test_several_decode_at_once_on_a_thread_each(name: str) -> None:
    engine = NativeEngine(made(name)[1], threads=2)
    alone = engine.decode(texts(), SEARCHES["beam"])
    narrow = [engine.on_one_thread() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: each.decode(texts(), SEARCHES["beam"]), narrow * 3))
    del engine  # what is made of it keeps its model
    assert found == [alone] * 12
    assert narrow[0].decode(texts(), SEARCHES["beam"]) == alone


def test_what_a_listener_raises_comes_out() -> None:
    engine = NativeEngine(made("plain")[1], threads=2)

    def stop(*_: object) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.decode(texts(), SEARCHES["greedy"], heard=stop)
    with pytest.raises(KeyboardInterrupt):
        engine.decode(texts(), SEARCHES["beam"], tick=stop)  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [{"activation": "elu"}, {"norm": "nor"}, {"placement": "ost"}, {"score": "additive"}])
def test_a_model_of_another_kind_is_refused(odd: dict[str, str]) -> None:
    name = next(iter(odd))
    with pytest.raises(UserError, match=rf"model\.{name}: {odd[name]}.*`engine` torch"):
        prepare(a_translator(**odd), {})


@pytest.mark.full
@pytest.mark.slow
def test_the_sanitizers_are_silent() -> None:
    """Addresses and undefined behaviour, over what is well-formed and over what is not."""
    libraries = [
        subprocess.check_output(["gcc", f"-print-file-name=lib{name}.so"], text=True) for name in ("asan", "ubsan")
    ]
    if not all(Path(library.strip()).is_absolute() for library in libraries):
        pytest.skip("no sanitizers here")
    environment = {
        **os.environ,
        "CXX": "g++",
        "REGARD_NATIVE_FLAGS": "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined",
        "ASAN_OPTIONS": "detect_leaks=0",
        "LD_PRELOAD": " ".join(library.strip() for library in libraries),
    }
    some = "plain or llama or gated or window or threads or begins or listener"
    for command in (["pytest", "-x", __file__, "-k", f"({some}) and not sanitizers"], ["bench.abuse", "600"]):
        done = subprocess.run([sys.executable, "-m", *command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
