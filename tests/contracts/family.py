"""The members that contract tests run over: whatever enters a registry is covered on arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.config import PositionConfig
from regard.attention.mask import Mask
from regard.attention.score import SCORES, Score
from regard.data.config import VectorsConfig
from regard.models.config import (
    BertConfig,
    ElmoConfig,
    GptConfig,
    LayeredTextConfig,
    ReaderConfig,
    RecurrentAttention,
    RecurrentConfig,
    RecurrentTextConfig,
    Seq2seqConfig,
    TextConfig,
    TransformerConfig,
)
from regard.models.presets import PRESETS, TEXT_PRESETS
from regard.nn.recurrent import CELLS
from regard.shapes import Padded
from tests.contracts.adapters import FAMILIES, FEATURES, SOURCES, Member
from tests.contracts.snippets import contributed_scores

SCORES.update(contributed_scores())  # the example in CONTRIBUTING has to hold what it promises

POSITIONS = {
    "none": PositionConfig(kind="none"),
    "sinusoid": PositionConfig(),
    "sinusoid-halves": PositionConfig(layout="halves"),
    "sinusoid-projections": PositionConfig(place="projections"),
    "learned": PositionConfig(kind="learned", max_length=12),
    "learned-projections": PositionConfig(kind="learned", max_length=12, place="projections"),
    "shaw": PositionConfig(kind="shaw", clip=2),
    "rotary": PositionConfig(kind="rotary"),
    "rotary-halves": PositionConfig(kind="rotary", layout="halves"),
    "alibi": PositionConfig(kind="alibi"),
    "index": PositionConfig(kind="index"),
}


VECTORS = VectorsConfig(features=FEATURES)


def make_score(name: str, query_width: int, key_width: int) -> Score:
    hidden = {"mlp": (5, 3), "additive": (5,)}.get(name, ())
    return SCORES[name](query_width, key_width, hidden).double()


def mask_samples(batch: int, heads: int, num_queries: int, num_keys: int) -> dict[str, Mask]:
    """A mask by each constructor, for the given sizes; some leave queries with nothing to attend to."""
    draw = torch.Generator().manual_seed(1)
    matrix = torch.rand(batch, heads, num_queries, num_keys, generator=draw) < 0.5
    matrix[0, 0, 0] = False
    lengths = torch.arange(num_keys, num_keys - batch, -1)
    ids = torch.arange(num_keys).expand(batch, -1) // 2
    which = torch.arange(num_keys) == 1
    order = torch.stack([torch.randperm(num_keys, generator=draw) for _ in range(batch)])
    samples = {
        "none": Mask(),
        "causal": Mask.causal(),
        "padding": Mask.padding(lengths),
        "window": Mask.window(2),
        "segments": Mask.segments(ids),
        "globals": Mask.globals(which),
        "prefix": Mask.prefix(lengths - 1),
        "permutation": Mask.permutation(order, sees_itself=False),
        "matrix": Mask.matrix(matrix),
    }
    constructors = {name for name, value in vars(Mask).items() if isinstance(value, staticmethod)}
    assert samples.keys() == {"none", *constructors}, "a new mask needs a sample here"
    return samples | {
        "nothing": Mask.padding(torch.zeros(batch, dtype=torch.long)),
        "causal & padding": Mask.causal() & Mask.padding(lengths),
        "causal & window & segments": Mask.causal() & Mask.window(2) & Mask.segments(ids),
        "window | globals": Mask.window(1) | Mask.globals(which),
        "causal, shifted": Mask.causal().shifted(torch.arange(batch)),
    }


MASK_NAMES = list(mask_samples(2, 4, 3, 5))


def _transformer(**changes: object) -> TransformerConfig:
    shape = dict(
        source_vocabulary=11, target_vocabulary=13, width=16, hidden=24, num_heads=4,
        encoder_layers=2, decoder_layers=3,
    )  # fmt: skip
    return TransformerConfig(**(shape | changes))  # type: ignore[arg-type]


def _recurrent(**changes: object) -> RecurrentConfig:
    shape = dict(source_vocabulary=11, target_vocabulary=13, embedding=6, width=8)
    return RecurrentConfig(**(shape | changes))  # type: ignore[arg-type]


def _looks(**changes: object) -> RecurrentAttention:
    return RecurrentAttention(**changes)  # type: ignore[arg-type]


def shrunk(config: Seq2seqConfig) -> Seq2seqConfig:
    """A preset, small enough to train in a test."""
    if isinstance(config, TransformerConfig):
        return replace(config, width=16, hidden=24, num_heads=4, encoder_layers=2, decoder_layers=2)
    assert isinstance(config, RecurrentConfig)
    return replace(config, embedding=6, width=8)


CONFIGS: dict[str, Seq2seqConfig] = {
    **{f"preset-{name}": shrunk(preset().sized(11, 13)) for name, preset in PRESETS.items()},
    **{f"transformer-{name}": _transformer(position=position) for name, position in POSITIONS.items()},
    **{
        f"transformer-{norm}-{placement}": _transformer(norm=norm, placement=placement)
        for norm in ("layer", "rms")
        for placement in ("pre", "post", "none")
    },
    **{
        f"transformer-{activation}": _transformer(activation=activation)
        for activation in ("relu", "gelu", "silu", "reglu", "geglu", "swiglu")
    },
    **{f"transformer-{score}": _transformer(score=score) for score in SCORES},
    "transformer-gqa": _transformer(num_kv_heads=2),
    "transformer-mqa-rotary": _transformer(num_kv_heads=1, position=POSITIONS["rotary"]),
    "transformer-tied": _transformer(source_vocabulary=13, tied="all", output_bias=True, embedding_norm=True),
    "transformer-tied-output": _transformer(tied="output", scaled_embedding=False, bias=False),
    **{
        f"recurrent-{cell}-{query}-{score}": _recurrent(cell=cell, attention=_looks(score=score, query=query))
        for cell in ("rnn", "lstm", "gru")
        for query in ("previous", "current")
        for score in SCORES
    },
    "recurrent-word-in-query": _recurrent(attention=_looks(query_word=True)),
    "recurrent-word-in-query-current": _recurrent(attention=_looks(query_word=True, query="current")),
    "recurrent-heads": _recurrent(attention=_looks(score="scaled_dot", num_heads=4, projection=())),
    "recurrent-mlp-projections": _recurrent(attention=_looks(num_heads=2, projection=(7,))),
    "recurrent-first": _recurrent(attention=None),
    "recurrent-every": _recurrent(attention=None, encoding="every"),
    "recurrent-stacked": _recurrent(
        encoder_layers=3, decoder_layers=2, residual=True, tied="output", attention=_looks(query="current")
    ),
    "recurrent-stacked-previous": _recurrent(encoder_layers=2, decoder_layers=2, residual=True),
    "recurrent-copy": _recurrent(attention=None, bridge="copy", encoder_layers=2, decoder_layers=2),
    "recurrent-one-way": _recurrent(bidirectional=False, source_vocabulary=13, tied="all"),
    "transformer-of-vectors": _transformer(source_vocabulary=0, front=VECTORS, embedding_norm=True),
    "transformer-of-vectors-rotary": _transformer(source_vocabulary=0, front=VECTORS, position=POSITIONS["rotary"]),
    "recurrent-of-vectors": _recurrent(source_vocabulary=0, front=VECTORS, tied="output"),
}


def a_source(sentences: list[list[int]] = SOURCES) -> Padded:
    return Padded.of(sentences)


def a_target(batch: int = 3, length: int = 4) -> Tensor:
    """Target tokens that begin with `start`."""
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 13, (batch, length), generator=draw)
    tokens[:, 0] = 1
    return tokens


STACK: dict[str, Any] = dict(vocabulary=11, width=16, hidden=24, num_heads=4, num_layers=2, dropout=0.1)
RECURRENT: dict[str, Any] = dict(vocabulary=11, embedding=6, width=8, dropout=0.1)


def _small(config: TextConfig) -> TextConfig:
    """A preset, small enough to train in a test."""
    if isinstance(config, RecurrentTextConfig):
        return replace(config, **RECURRENT | {"dropout": config.dropout})
    assert isinstance(config, LayeredTextConfig)
    position = POSITIONS["learned"] if config.position.kind == "learned" else config.position
    shape = STACK | {"dropout": config.dropout, "num_kv_heads": config.num_kv_heads and 2}
    return replace(config, **shape, position=position)


TRUNKS: dict[str, dict[str, Any]] = {
    "bert": {"trunk": BertConfig(**STACK, position=POSITIONS["learned"])},
    "bert-mean": {"trunk": BertConfig(**STACK, position=POSITIONS["rotary"], placement="pre", segments=0)},
    "bert-bag": {"trunk": BertConfig(**STACK, position=POSITIONS["none"])},
    "gpt": {"trunk": GptConfig(**STACK)},
    "gpt-untied": {"trunk": GptConfig(**STACK, position=POSITIONS["rotary"], tied=False, num_kv_heads=1)},
    "lstm": {"trunk": RecurrentTextConfig(**RECURRENT, num_layers=2)},
    "gru-untied": {"trunk": RecurrentTextConfig(**RECURRENT | {"width": 6}, cell="gru", tied=False)},
    "elmo": {"trunk": ElmoConfig(**RECURRENT)},
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "classification": {"labels": ("a", "b", "c")},
    "pairs": {"labels": ("a", "b", "c"), "pairs": True},
    "symmetric": {"labels": ("a", "b", "c"), "pairs": True, "symmetric": True},
    "regression": {"question": "regression"},
    "choice": {"question": "choice", "pairs": True},
    "tagging": {"question": "tagging", "labels": ("a", "b", "c", "d")},
    "spans": {"question": "spans", "pairs": True},
}


OF_VECTORS: dict[str, dict[str, Any]] = {
    "bert-of-vectors": {"trunk": BertConfig(**STACK | {"vocabulary": 0}, front=VECTORS)},
    "elmo-of-vectors": {"trunk": ElmoConfig(**RECURRENT | {"vocabulary": 0}, front=VECTORS)},
}
QUESTIONS_OF_ALL = ("classification", "regression")


def _reader(trunk: str, question: str) -> ReaderConfig:
    pooling = "first" if trunk == "bert" else "mean"
    config = ReaderConfig(**(TRUNKS | OF_VECTORS)[trunk], **QUESTIONS[question], pooling=pooling)
    if not isinstance(config.trunk, BertConfig):
        return config
    pooler = pooling == "first" and not config.of_tokens
    return replace(config, trunk=replace(config.trunk, guesses=False, pooler=pooler))


LONE: dict[str, Any] = {
    **{f"preset-{name}": _small(preset()) for name, preset in TEXT_PRESETS.items()},
    **{f"gpt-{name}": GptConfig(**STACK, position=position) for name, position in POSITIONS.items()},
    "gpt-untied": GptConfig(**STACK, placement="pre", tied=False),
    "gpt-mqa-context": GptConfig(**STACK, position=POSITIONS["rotary"], num_kv_heads=1, context=2),
    "gpt-context-learned": GptConfig(**STACK, position=POSITIONS["learned"], context=3),
    **{f"recurrent_text-{cell}": RecurrentTextConfig(**RECURRENT, cell=cell, tied=False) for cell in CELLS},
    "recurrent_text-tied": RecurrentTextConfig(**RECURRENT | {"width": 6}, num_layers=2),
    **{f"bert-{name}": BertConfig(**STACK, position=position) for name, position in POSITIONS.items()},
    "bert-next-sentence": BertConfig(**STACK, next_sentence=True, pooler=True),
    "bert-index": BertConfig(**STACK, position=POSITIONS["index"], embedding_norm=False),  # a norm takes it away
    "bert-untied": BertConfig(**STACK, placement="pre", segments=0, embedding_norm=False, tied=False),
    "bert-vectors": BertConfig(**STACK, guesses=False, num_kv_heads=2),
    "bert-of-vectors": BertConfig(**STACK | {"vocabulary": 0}, front=VECTORS, guesses=False),
    "elmo": ElmoConfig(**RECURRENT),
    "elmo-equal-widths": ElmoConfig(**RECURRENT | {"width": 6}),
    "elmo-gru": ElmoConfig(**RECURRENT, cell="gru", num_layers=3),
    "elmo-rnn": ElmoConfig(**RECURRENT | {"width": 6}, cell="rnn", num_layers=1, tied=False),
    **{f"{trunk}-{question}": _reader(trunk, question) for trunk in TRUNKS for question in QUESTIONS},
    **{f"{trunk}-{question}": _reader(trunk, question) for trunk in OF_VECTORS for question in QUESTIONS_OF_ALL},
}
MEMBERS: dict[str, Member] = {}
for _name, _config in (CONFIGS | LONE).items():
    _member = FAMILIES[type(_config)](_config)
    MEMBERS[f"{_member.family}/{_name}"] = _member


def members(kept: Callable[[Member], bool] = lambda member: True) -> pytest.MarkDecorator:
    """Parametrises a test by all members that a contract is about."""
    chosen = {name: member for name, member in MEMBERS.items() if kept(member)}
    return pytest.mark.parametrize("member", chosen.values(), ids=chosen)
