"""A trained folder, ready to translate: raw text in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.decode.config import Beam
from regard.decode.job import Hypothesis
from regard.engine.explain import Explanation, explain
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.shapes import Padded
from regard.tasks.folder import load_model, load_tokenizers
from regard.tasks.translation import Tokenizers, log_probs


class Translator:
    """Texts in, hypotheses out; blank in, blank out."""

    def __init__(
        self,
        folder: Path,
        *,
        beam: int | None = None,
        num_best: int = 1,
        batch_size: int | None = None,
        tag: str | None = None,
    ) -> None:
        self.model, search, self.max_length = load_model(folder)
        self.search: Beam = replace(search, size=max(beam or search.size, num_best), num_best=num_best)
        self.tokenizers: Tokenizers = load_tokenizers(folder)
        self.engine = TorchEngine(self.model, batch_size=batch_size)
        self.tag = tag
        described = folder / "config.json"
        self.name = f"{described.resolve()} {described.stat().st_mtime_ns}"
        """Changes whenever the model does."""

    def translate(self, texts: Sequence[str], tick: Callable[[int], None] | None = None) -> list[list[Hypothesis]]:
        """For each text its hypotheses, best first; none for a blank one."""
        filled = [i for i, text in enumerate(texts) if text.strip()]
        sources = self.tokenizers.read([texts[i] for i in filled], self.tag)
        results: list[list[Hypothesis]] = [[] for _ in texts]
        for i, hypotheses in zip(filled, self.engine.decode(sources, self.search, tick=tick), strict=True):
            results[i] = hypotheses
        return results

    def score(self, texts: Sequence[str], targets: Sequence[str]) -> tuple[NDArray[np.float64], int]:
        """The log-probability of each target with its end mark, given its text, and how many tokens that were."""
        said = self.tokenizers.target.encode(targets)
        found = log_probs(self.model, self.tokenizers.read(texts, self.tag), said)
        return found, sum(len(ids) + 1 for ids in said)

    def parts(self, text: str) -> list[str]:
        """A text that is longer than what the model was trained on, in parts that are not; else the text alone."""
        (source,) = self.tokenizers.read([text], self.tag)
        if len(source) <= self.max_length:
            return [text]
        space = " " if " " in text else ""  # or one endless word
        words = text.split(" ") if space else list(text)
        halves = words[: len(words) // 2], words[len(words) // 2 :]
        return [part for half in halves for part in self.parts(space.join(half))]

    def text(self, hypothesis: Hypothesis) -> str:
        """One line, whatever the model says."""
        return " ".join(self.tokenizers.target.decode(hypothesis.tokens).split("\n"))

    def spelled(self, targets: Sequence[str]) -> list[list[int]]:
        """Targets as outputs: tokens and the end mark."""
        return [[*ids, self.model.end] for ids in self.tokenizers.target.encode(targets)]

    def explain(self, texts: Sequence[str], outputs: Sequence[Sequence[int]] | None = None) -> list[Explanation]:
        """What the model looked at while it translated each text, or would have for outputs given."""
        if not all(text.strip() for text in texts):
            raise UserError("nothing to look at: the text is blank; give a sentence")
        sources = self.tokenizers.read(texts, self.tag)
        said = outputs or [best[0].tokens for best in self.engine.decode(sources, self.search)]
        return explain(self.model, Padded.of(sources), said)
