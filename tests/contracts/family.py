"""The members that contract tests run over: whatever enters a registry is covered on arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.config import PositionConfig
from regard.attention.mask import Mask
from regard.attention.score import SCORES, Score
from regard.models.config import RecurrentAttention, RecurrentConfig, Seq2seqConfig, TransformerConfig
from regard.models.presets import PRESETS
from regard.shapes import Padded
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
}

SOURCES = [[5, 6, 7, 8, 9], [3, 4, 2], [10]]


def a_source(sentences: list[list[int]] = SOURCES) -> Padded:
    return Padded.of(sentences)


def a_target(batch: int = 3, length: int = 4) -> Tensor:
    """Target tokens that begin with `start`."""
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 13, (batch, length), generator=draw)
    tokens[:, 0] = 1
    return tokens


Build = Callable[[Seq2seqConfig], torch.nn.Module]
