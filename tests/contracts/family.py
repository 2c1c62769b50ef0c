"""The members that contract tests run over: whatever enters a registry is covered on arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Site
from regard.attention.config import PositionConfig
from regard.attention.mask import Mask
from regard.attention.score import SCORES, Score
from regard.data.config import VectorsConfig
from regard.models.build import build
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
from regard.tasks.labelled.start import settle_reader
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


FEATURES = 3
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

SOURCES = [[5, 6, 7, 8, 9], [3, 4, 2], [10]]


def a_source(sentences: list[list[int]] = SOURCES) -> Padded:
    return Padded.of(sentences)


def a_target(batch: int = 3, length: int = 4) -> Tensor:
    """Target tokens that begin with `start`."""
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 13, (batch, length), generator=draw)
    tokens[:, 0] = 1
    return tokens


TEXTS = [[5, 6, 7, 8, 9], [3, 4, 2], [10]]
SECOND = [2, 1, 1]  # where the second part of each begins
TARGETS = [[1, 5, 9], [1], [1, 12, 4, 7]]
PAIRS = [([5, 6], [7, 8, 9]), ([3], [4, 2]), ([10], [6])]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Three items of different lengths, as models of all families need them."""

    texts: Padded
    segments: Tensor  # (B, T): 1 in the second part of a text
    written: Padded  # the tokens that are predicted from: targets, or the texts themselves
    items: Tensor  # (B,): of each text the item it belongs to

    @staticmethod
    def of(
        texts: list[list[int]], second: list[int], written: list[list[int]], items: list[int], front: object = None
    ) -> Inputs:
        padded = Padded.of(texts)
        segments = torch.arange(padded.tokens.shape[1]) >= torch.tensor(second)[:, None]
        inputs = Inputs(padded, segments.long(), Padded.of(written), torch.tensor(items))
        return inputs if front is None else inputs.as_vectors()

    def alone(self, item: int) -> Inputs:
        """One item without the padding that others need."""
        rows = self.items == item

        def cut(x: Tensor, lengths: Tensor) -> Tensor:
            return x[rows][:, : int(lengths[rows].max())]

        texts, written = (
            Padded(cut(padded.values, padded.lengths), padded.lengths[rows]) for padded in (self.texts, self.written)
        )
        return Inputs(texts, cut(self.segments, self.texts.lengths), written, self.items[rows] - item)

    def stretched(self, by: int = 2) -> Inputs:
        """The same with more padding, of any tokens and segments."""
        draw = torch.Generator().manual_seed(4)

        def longer(x: Tensor, lengths: Tensor, below: int) -> Tensor:
            wide = torch.randint(0, below, (len(x), x.shape[1] + by, *x.shape[2:]), generator=draw).to(x.dtype)
            real = torch.arange(wide.shape[1]) < lengths[:, None]
            wide[real] = x[real[:, : x.shape[1]]]
            return wide

        texts, written = (
            Padded(longer(padded.values, padded.lengths, 11), padded.lengths) for padded in (self.texts, self.written)
        )
        return Inputs(texts, longer(self.segments, texts.lengths, 2), written, self.items)

    def rolled(self, by: int) -> Inputs:
        """An item alone, the last tokens of its texts before the others."""
        texts = Padded(self.texts.values.roll(by, 1), self.texts.lengths)
        return replace(self, texts=texts, segments=self.segments.roll(by, 1))

    def followed(self, token: int) -> Inputs:
        """An item alone with one more token written."""
        return replace(self, written=Padded.of([[*ids, token] for ids in self.written.lists()]))

    def as_vectors(self) -> Inputs:
        """The same with a vector in each token's place."""
        table = torch.randn(13, FEATURES, generator=torch.Generator().manual_seed(5))
        return replace(self, texts=Padded(table[self.texts.tokens], self.texts.lengths))

    @property
    def batch(self) -> Padded:
        return replace(self.texts, segments=self.segments)

    @property
    def last(self) -> Tensor:
        """The last token written of each."""
        return self.written.tokens.gather(1, self.written.lengths[:, None] - 1)[:, 0]


@dataclass(frozen=True, eq=False)
class Member:
    """A tiny model under contract; a subclass knows how the models of a family are called, and tests do not."""

    config: Any
    family: ClassVar[str]
    stepper: ClassVar[bool] = False

    @property
    def inputs(self) -> Inputs:
        return Inputs.of(TEXTS, SECOND, TEXTS, [0, 1, 2], getattr(self.config, "front", None))

    @property
    def of_tokens(self) -> bool:
        """Whether the output has an axis of tokens, from which padding is cut, or is of whole items."""
        return True

    @property
    def orderless(self) -> bool:
        """Whether the order of the texts' tokens cannot be known."""
        return self.config.position.kind == "none"

    def build(self, seed: int = 0) -> Any:
        return build(self.config, seed)

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        """All that the model says, of tokens (B, T, ..) or of items (N, ..)."""
        raise NotImplementedError

    def outputs(self, model: Any, inputs: Inputs, site: Site = Site()) -> list[Tensor]:
        """What it says of each item, without that of padding."""
        out = self.forward(model, inputs, site)
        return [x[:n] for x, n in zip(out, inputs.written.lengths, strict=True)] if self.of_tokens else [*out]

    def loss(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        """The squared distance from numbers further away than a few steps reach."""
        outputs = self.outputs(model, inputs, site)
        return sum(F.mse_loss(x, torch.linspace(-4, 4, x.numel()).to(x).view_as(x)) for x in outputs)  # type: ignore[return-value]

    def words(self, path: str, inputs: Inputs) -> Padded:
        """The tokens embedded at a site."""
        return inputs.texts

    def axes(self, path: str, inputs: Inputs) -> tuple[Padded, Padded]:
        """What the rows and the columns of a site's attention stand for."""
        return inputs.texts, inputs.texts


class Writers(Member):
    family, stepper = "writers", True

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        return model(inputs.written.tokens, site)

    def loss(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        """Of the token after each; the first follows the last."""
        outputs = self.outputs(model, inputs, site)
        rows = map(torch.tensor, inputs.written.lists())
        return sum(F.cross_entropy(x, ids.roll(-1)) for x, ids in zip(outputs, rows, strict=True))  # type: ignore[return-value]

    def prompts(self, inputs: Inputs) -> Padded | None:
        return inputs.texts


class EncoderDecoders(Writers):
    family = "seq2seq"

    @property
    def inputs(self) -> Inputs:
        return Inputs.of(SOURCES, SECOND, TARGETS, [0, 1, 2], self.config.front)

    @property
    def orderless(self) -> bool:
        return isinstance(self.config, TransformerConfig) and super().orderless

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        return model(inputs.texts, inputs.written.tokens, site)

    def words(self, path: str, inputs: Inputs) -> Padded:
        return inputs.written if path == "target" else inputs.texts

    def axes(self, path: str, inputs: Inputs) -> tuple[Padded, Padded]:
        rows = inputs.written if path.startswith("decoder") else inputs.texts
        return rows, inputs.texts if path.endswith("cross") else rows

    def prompts(self, inputs: Inputs) -> Padded | None:
        return None


class Encoders(Member):
    """All that is said of tokens: vectors, guesses, and what is said of the text with each of its tokens."""

    family = "encoders"

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        x = model(inputs.batch, site)
        said = [x, model.guess(x)] if model.guess else [x]
        pooled = [model.pooled(x)] if model.pooler else []
        pooled += [model.follows(pooled[0])] if model.follows else []
        return torch.cat([*said, *(y[:, None].expand(-1, x.shape[1], -1) for y in pooled)], -1)


class BothWays(Member):
    """Vectors of all layers and their mean, and the words that each direction predicts."""

    family = "encoders"
    orderless = False

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        x = model(inputs.batch, site)
        predicted = map(model.head, model.both(inputs.texts, site))
        return torch.cat([x, *model.layers(inputs.texts, site), *predicted], -1)


class Readers(Member):
    family = "classifiers"

    @property
    def inputs(self) -> Inputs:
        if not self.config.pairs:
            return Inputs.of(TEXTS, [*map(len, TEXTS)], TEXTS, [0, 1, 2], getattr(self.config.trunk, "front", None))
        orders = [(a, b) for pair in PAIRS for a, b in ([pair, pair[::-1]] if self.config.symmetric else [pair])]
        texts = [a + b for a, b in orders]
        items = [i * len(PAIRS) // len(orders) for i in range(len(orders))]
        return Inputs.of(texts, [len(a) for a, _ in orders], texts, items)

    @property
    def of_tokens(self) -> bool:
        return self.config.of_tokens

    @property
    def orderless(self) -> bool:
        trunk = self.config.trunk
        return isinstance(trunk, BertConfig) and trunk.position.kind == "none"

    def build(self, seed: int = 0) -> Any:
        model = super().build(seed)
        settle_reader(model, auxiliary=False)  # what answers do not depend on is not trained
        return model

    def forward(self, model: Any, inputs: Inputs, site: Site = Site()) -> Tensor:
        return model.answer(model.see(inputs.batch, site), inputs.items, site)


FAMILIES: dict[type, type[Member]] = {
    TransformerConfig: EncoderDecoders,
    RecurrentConfig: EncoderDecoders,
    GptConfig: Writers,
    RecurrentTextConfig: Writers,
    BertConfig: Encoders,
    ElmoConfig: BothWays,
    ReaderConfig: Readers,
}

STACK: dict[str, Any] = dict(vocabulary=11, width=16, hidden=24, num_heads=4, num_layers=2, dropout=0.1)
RECURRENT: dict[str, Any] = dict(vocabulary=11, embedding=6, width=8, dropout=0.1)


def _small(config: TextConfig) -> TextConfig:
    """A preset, small enough to train in a test."""
    if isinstance(config, RecurrentTextConfig):
        return replace(config, **RECURRENT)
    assert isinstance(config, LayeredTextConfig)
    position = POSITIONS["learned"] if config.position.kind == "learned" else config.position
    return replace(config, **STACK, num_kv_heads=config.num_kv_heads and 2, position=position)


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
