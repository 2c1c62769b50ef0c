"""Models in ONNX: every step's numbers and every word as in torch, for batches and lengths of any size."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from regard.attention.config import PositionConfig
from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.errors import UserError
from regard.exchange.onnx import write_onnx
from regard.exchange.onnxrun import NEXT, OnnxModel
from regard.models.build import build
from regard.models.config import (
    BertConfig,
    GptConfig,
    RecurrentAttention,
    RecurrentConfig,
    RecurrentTextConfig,
    TransformerConfig,
)
from regard.shapes import Padded

PAIR: dict[str, Any] = dict(source_vocabulary=23, target_vocabulary=19)
SHAPE: dict[str, Any] = PAIR | dict(width=12, hidden=20, num_heads=2, encoder_layers=2, decoder_layers=3)
WIDE: dict[str, Any] = {**SHAPE, "width": 16, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2}
CELLS: dict[str, Any] = PAIR | dict(embedding=8, width=12)
TEXT: dict[str, Any] = dict(vocabulary=29, width=24, hidden=20, num_heads=4, num_layers=2, start=1)


def at(kind: Any, **more: Any) -> PositionConfig:
    return PositionConfig(kind=kind, **more)


PAIRS = {
    "sinusoid-post": TransformerConfig(**SHAPE, embedding_norm=True, output_bias=True),
    "sinusoid-halves-pre": TransformerConfig(
        **SHAPE, position=at("sinusoid", layout="halves"), placement="pre", activation="geglu", score="bilinear"
    ),
    "learned-unscaled": TransformerConfig(
        **SHAPE, position=at("learned", max_length=31), scaled_embedding=False, tied="output", activation="gelu_tanh"
    ),
    "rotary-shared-heads": TransformerConfig(
        **WIDE, num_kv_heads=2, head_width=6, position=at("rotary"), norm="rms", placement="pre", activation="swiglu"
    ),
    "alibi-one-head-shared": TransformerConfig(
        **{**WIDE, "source_vocabulary": 19}, num_kv_heads=1, position=at("alibi"), tied="all", bias=False, score="dot"
    ),
    "shaw": TransformerConfig(**SHAPE, num_kv_heads=1, position=at("shaw", clip=2), placement="pre"),
    "first-layer-mlp-score": TransformerConfig(
        **{**SHAPE, "encoder_layers": 1, "decoder_layers": 1},
        position=at("sinusoid", place="projections"),
        score="mlp",
        activation="silu",
        placement="none",
    ),
    "index-additive-score": TransformerConfig(**SHAPE, position=at("index"), score="additive", activation="gelu"),
    "bahdanau": RecurrentConfig(**CELLS, cell="gru"),
    "luong": RecurrentConfig(
        **CELLS,
        encoder_layers=2,
        decoder_layers=3,
        residual=True,
        attention=RecurrentAttention(score="mlp", score_hidden=(7, 5), query="current", query_word=True),
    ),
    "heads-over-rnn": RecurrentConfig(
        **CELLS, cell="rnn", attention=RecurrentAttention(score="scaled_dot", num_heads=3, projection=(9,))
    ),
    "without-attention": RecurrentConfig(
        **CELLS, bidirectional=False, bridge="copy", attention=None, encoding="every", tied="output"
    ),
}
TEXTS = {
    "gpt2": GptConfig(**TEXT, position=at("learned", max_length=17), placement="pre", activation="gelu_tanh"),
    "llama": GptConfig(
        **TEXT,
        num_kv_heads=2,
        position=at("rotary", layout="halves", base=500.0),
        norm="rms",
        placement="pre",
        activation="swiglu",
        bias=False,
        tied=False,
    ),
    "rotary-interleaved": GptConfig(**TEXT, position=at("rotary"), context=4),
    "shaw-text": GptConfig(**TEXT, position=at("shaw", clip=3)),
    "lstm": RecurrentTextConfig(vocabulary=29, embedding=8, width=12, num_layers=2, start=1),
    "gru": RecurrentTextConfig(vocabulary=29, embedding=8, width=8, cell="gru", tied=False, start=1),
}
SOURCES = [
    [[5, 6, 7, 8, 2], [9, 2], [10, 11, 12, 2]],
    [[2]],
    [[4, 2]] * 2,
    [[3 + (i * j) % 15 for j in range(3 + i)] + [2] for i in range(7)],
]


def model_of(config: Any) -> Any:
    """Weights that let words depend on what was read; twice as large, float32 itself is off by more than 1e-5."""
    model, draw = build(config), torch.Generator().manual_seed(3)
    for p in model.parameters():
        noise = torch.randn(p.shape, generator=draw)
        p.data = p.data + 0.1 * noise if p.dim() == 1 else p.shape[-1] ** -0.5 * noise
    return model


def written(folder: Path, config: Any) -> tuple[Any, OnnxModel]:
    model = model_of(config)
    write_onnx(folder, model)
    for path in folder.glob("*.onnx"):
        onnx.checker.check_model(onnx.load(path), full_check=True)
    return model, OnnxModel(folder)


def expected(model: Any, rows: list[list[int]], longest: int, prompts: bool = False) -> list[list[int]]:
    batch = Padded.of(rows)
    found = decode(model, batch, Greedy(max_length=longest), prefix=batch if prompts else None)
    return [hypotheses[0].tokens for hypotheses in found]


def assert_same_steps(model: Any, state: Any, theirs: OnnxModel, given: Any, calls: list[torch.Tensor]) -> None:
    """The logits after each call, from the same tokens, here and there; float32 sums differ by about 1e-6."""
    for tokens in calls:
        x, state = model.advance(tokens, state)
        found = theirs.run(theirs.decoder, {"tokens": tokens.numpy(), **given})
        np.testing.assert_allclose(found.pop("logits"), model.head(x[:, -1]).numpy(), atol=1e-5, rtol=0)
        given |= {name.removeprefix(NEXT): value for name, value in found.items()}


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_a_source_is_read_and_answered_as_in_torch(name: str, tmp_path: Path) -> None:
    model, theirs = written(tmp_path, PAIRS[name])
    draw = torch.Generator().manual_seed(1)
    words = set()
    for rows in SOURCES:
        source = Padded.of(rows)
        given = {"tokens": source.tokens.numpy(), "lengths": source.lengths.numpy()}
        given = theirs.run(theirs.encoder, given) | {"lengths": given["lengths"]}
        given |= {n: np.zeros((len(rows), *shape), np.float32) for n, shape in theirs.zeros.items()}
        calls = [torch.randint(0, 19, (len(rows), 1), generator=draw) for _ in range(6)]
        assert_same_steps(model, model.encode(source), theirs, given, calls)
        ours = expected(model, rows, 13)
        assert theirs.greedy(rows, 13) == ours
        words |= {word for row in ours for word in row}
    assert len(words) > 1, "a model that says the same whatever it reads shows nothing"


@pytest.mark.parametrize("name", TEXTS)
@torch.no_grad()
def test_a_prompt_is_read_at_once_and_gone_on_from_as_in_torch(name: str, tmp_path: Path) -> None:
    model, theirs = written(tmp_path, TEXTS[name])
    draw = torch.Generator().manual_seed(1)
    for rows in (1, 2, 5):
        given = {n: np.zeros((rows, *shape), np.float32) for n, shape in theirs.zeros.items()}
        calls = [torch.randint(0, 29, (rows, length), generator=draw) for length in (rows, 1, 4, 1)]
        assert_same_steps(model, model.nothing_yet(rows), theirs, given, calls)
    prompts = [[1], [1, 5, 6, 7, 8, 9], [1, 20, 3]]
    ours = expected(model, prompts, 14, prompts=True)
    assert theirs.greedy(prompts, 14) == ours
    assert len({word for row in ours for word in row}) > 1


def test_rows_end_at_different_steps(tmp_path: Path) -> None:
    model, theirs = written(tmp_path, PAIRS["rotary-shared-heads"])
    ours = expected(model, SOURCES[3], 9)
    assert len({len(row) for row in ours}) > 1
    assert theirs.greedy(SOURCES[3], 9) == ours


def test_learned_positions_end_the_text_where_torch_ends_it(tmp_path: Path) -> None:
    model, theirs = written(tmp_path, replace(TEXTS["gpt2"], end=28))
    prompts = [[1, 4], [3] * 16, [3] * 17]
    ours = expected(model, prompts, 40, prompts=True)
    assert [len(row) for row in ours] == [16, 2, 1]
    assert theirs.greedy(prompts, 40) == ours


def test_a_tied_table_is_stored_once(tmp_path: Path) -> None:
    write_onnx(tmp_path, model_of(TEXTS["gpt2"]))
    write_onnx(tmp_path / "untied", model_of(replace(TEXTS["gpt2"], tied=False)))
    tied, untied = (onnx.load(folder / "decoder.onnx").graph.initializer for folder in (tmp_path, tmp_path / "untied"))
    assert [sum(list(x.dims) == [29, 24] for x in kept) for kept in (tied, untied)] == [1, 2]


def test_it_runs_without_torch(tmp_path: Path) -> None:
    _, theirs = written(tmp_path, PAIRS["luong"])
    code = "import sys; sys.modules['torch'] = None\nfrom pathlib import Path\n"
    code += "from regard.exchange.onnxrun import OnnxModel\n"
    code += f"print(OnnxModel(Path({str(tmp_path)!r})).greedy({SOURCES[0]}, 5))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == theirs.greedy(SOURCES[0], 5)


def test_what_cannot_be_drawn_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ONNX .*Bert .*Transformer, Gpt"):
        write_onnx(tmp_path, build(BertConfig(vocabulary=9, width=4, hidden=4, num_heads=1, num_layers=1)))
    model = build(replace(PAIRS["shaw"], position=at("fraction")))
    model.decoder.blocks[1].feedforward.function = torch.tanh
    model.encoder.norm = torch.nn.Softplus()
    with pytest.raises(UserError, match="Fraction .*Softplus .*activation relu"):
        write_onnx(tmp_path, model)
    assert not list(tmp_path.iterdir())


def test_a_model_too_large_for_one_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.exchange.onnx.LARGEST", 1000)
    with pytest.raises(UserError, match="30,784 bytes .* 1,000 "):
        write_onnx(tmp_path, build(PAIRS["shaw"]))
