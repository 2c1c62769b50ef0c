"""How the models of each family are called, and on what: what contract tests need not know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Site
from regard.models.build import build
from regard.models.config import (
    BertConfig,
    ElmoConfig,
    GptConfig,
    ReaderConfig,
    RecurrentConfig,
    RecurrentTextConfig,
    TransformerConfig,
)
from regard.shapes import Padded
from regard.tasks.labelled.start import settle_reader

FEATURES = 3  # of a vector
SOURCES = [[5, 6, 7, 8, 9], [3, 4, 2], [10]]
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
