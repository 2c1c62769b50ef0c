"""Translation: from sentence pairs to a model that turns one side into the other."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.site import Site
from regard.data.batches import plan
from regard.data.store import Store
from regard.data.text import Pair
from regard.data.tokenizer import END, PADDING, START, Tokenizers
from regard.decode.config import Search
from regard.engine.engine import Engine, Rows, Sources
from regard.errors import UserError
from regard.metrics.text import METRICS
from regard.models.writer import Seq2seq
from regard.nn.loss import cross_entropy, lost
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.folder import loaded_of
from regard.tasks.report import Report
from regard.tasks.task import Direction, Loss, Shape
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.runtime import Translator

Names = NDArray[np.int64]
REHEARSED = 200  # sentences by which an evaluation is timed


@dataclass(frozen=True, eq=False)
class Pairs:
    """A batch: sources, and targets between START and END."""

    source: Padded
    target: Padded


class Translation:
    """A Task over stored pairs, whose sources already carry tag and end mark."""

    counts = "tokens"
    about = ""
    left = ""
    """Which pairs were left out, where that was decided in this process."""

    def __init__(self, tokenizers: Tokenizers, store: Store, held: Sequence[Pair], recipe: TranslationRecipe) -> None:
        self.tokenizers, self.store, self.held = tokenizers, store, held
        self.train, self.search, self.metric = recipe.train, recipe.search, recipe.train.metric
        if self.metric not in METRICS:
            raise UserError(f"there is no metric {self.metric!r}; choose {', '.join(METRICS)}")
        self.source_lengths, self.target_lengths = store.lengths
        self.sizes = (*tokenizers.sizes, tokenizers.source.front)

    @property
    def primary(self) -> tuple[str, Direction]:
        return (self.metric, METRICS[self.metric][1]) if self.held else ("train_loss", "lower")

    def batches(self, seed: int, epoch: int) -> list[Names]:
        return plan(self.source_lengths, self.target_lengths, self.train.batch_tokens, Key(seed, ("batches", epoch)))

    def largest(self) -> Names:
        batches = plan(self.source_lengths, self.target_lengths, self.train.batch_tokens, None)
        return max(batches, key=lambda names: self.shape(names).rows * sum(self.shape(names)[1:3]))

    def shape(self, name: Names) -> Shape:
        source, target = self.source_lengths[name], self.target_lengths[name] + 1
        return Shape(len(name), int(source.max()), int(target.max()), int(source.sum()), int(target.sum()))

    def describe(self, name: Names) -> str:
        return f"pairs {', '.join(str(i + 1) for i in sorted(name.tolist())[:5])} and {max(0, len(name) - 5)} more"

    def load(self, name: Names) -> Pairs:
        pairs = [self.store.pair(int(i)) for i in name]
        source = Padded.of([source for source, _ in pairs])
        return Pairs(source, Padded.of([np.concatenate(([START], target, [END])) for _, target in pairs]))

    def loss(self, model: Seq2seq[Any], batch: Pairs, carry: Any, key: Key | None) -> Loss:
        """Cross-entropy of each target token, smoothed [Szegedy+ 2016] while training; padding costs no logits."""
        site = Site(key, losses={})
        tokens = batch.target.tokens
        x, _ = model.advance(tokens[:, :-1], model.encode(batch.source, site), site)
        wanted = tokens[:, 1:]
        real = wanted != PADDING
        smoothing = self.train.label_smoothing if key is not None else 0.0
        total = cross_entropy(model.head, x[real], wanted[real], smoothing)
        return Loss.of(site, total, float(real.sum()))

    def summary(self, recipe: TranslationRecipe, report: Report) -> dict[str, str]:
        from regard.tasks.translation.check import sizes

        return sizes(self, recipe, report)

    def evaluate(self, model: Seq2seq[Any], engine: Engine) -> dict[str, float]:
        return self._scores(model, engine, self.held, self.search) if self.held else {}

    def rehearse(self, model: Seq2seq[Any], engine: Engine) -> float:
        """By a sample, half as long again as its references: so far a search goes, once its model can end sentences."""
        if not self.held:
            return 0.0
        some = self.held[:: max(1, len(self.held) // REHEARSED)]
        sources = self.tokenizers.read([pair.source for pair in some])
        targets = self.tokenizers.target.encode([pair.target for pair in some])
        longer = 1.5 * sum(map(len, targets)) - 10 * len(targets)  # the search adds 10 to each
        search = replace(self.search, max_ratio=max(0.0, longer) / sum(map(len, sources)))
        began = time.perf_counter()
        self._scores(model, engine, some, search)
        return (time.perf_counter() - began) * len(self.held) / len(some)

    def _scores(self, model: Seq2seq[Any], engine: Engine, pairs: Sequence[Pair], search: Search) -> dict[str, float]:
        """As `regard evaluate` has them: by the translator that users get."""
        translator = Translator(loaded_of("translation", search, model, self.tokenizers, search.max_length))
        vars(translator)["engine"] = engine
        outputs, references = translator.best_of(pairs), [pair.target for pair in pairs]
        scores = {name: METRICS[name][0](outputs, references).value for name in dict.fromkeys((self.metric, "chrf"))}
        log_prob, tokens = translator.likelihood_of(pairs, self.train.batch_tokens)
        return {**scores, "valid_loss": -log_prob / tokens}


@torch.no_grad()
def log_probs(model: Seq2seq[Any], sources: Sources, targets: Rows, batch_tokens: int = 4096) -> NDArray[np.float64]:
    """Of each target with its end mark, given its source; sources are as the model reads them."""
    found = np.zeros(len(sources))
    sizes = [np.array([len(x) for x in side]) for side in (sources, targets)]
    for names in plan(sizes[0], sizes[1] + 1, batch_tokens, None):
        target = Padded.of([np.array([model.start, *targets[i], model.end]) for i in names])
        state = model.encode(Padded.of([sources[i] for i in names]))
        x, _ = model.advance(target.tokens[:, :-1], state)
        real = torch.arange(x.shape[1])[None] < target.lengths[:, None] - 1
        nats = lost(model.head, x[real], target.tokens[:, 1:][real]).double()
        found[names] = -torch.zeros(real.shape, dtype=nats.dtype).masked_scatter(real, nats).sum(1).numpy()
    return found
