"""A reader, ready to answer: labels with their probabilities, numbers, choices, tags, words of a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from regard.attention.site import Site, Trace
from regard.data.examples import Example
from regard.engine.explain import Explanation, check_size
from regard.errors import UserError
from regard.look.look import Look, Side
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout
from regard.tasks.labelled.task import Answer, answers, wanted_of
from regard.tasks.runnable import TOGETHER, Runnable, check_silent, listed

MARKS = ("[start]", "[between]", "[extract]")  # of decoders, which no tokenizer knows
ASKED = {  # what a line holds, by question, a tab between
    "classification": "a text, or two",
    "regression": "a text, or two",
    "choice": "a context and two choices or more",
    "tagging": "words, a space between",
    "spans": "a document and a question",
}


class Answerer(Runnable):
    """A model that answers: `model("a fine film")`, or `model(["a cat\\ta dog", ...])`, a tab between parts."""

    def __call__(self, texts: str | Sequence[str]) -> Answer | list[Answer]:
        found = self.answer([self.example(line, number) for number, line in enumerate(listed(texts), 1)])
        return found[0] if isinstance(texts, str) else found

    def attend(self, text: str, target: str | None = None) -> Look:
        check_silent(target)
        told, words = self.explain(text), self.tokenizer
        known = [i for i in told.source if i < words.vocabulary]
        plain = iter(zip(words.pieces(known), words.words(known), strict=True))
        pieces, groups = list[str](), list[int]()
        for number, i in enumerate(told.source):
            piece, group = next(plain) if i < words.vocabulary else (MARKS[i - words.vocabulary], -1 - number)
            pieces.append(piece)
            groups.append(group)
        nothing = Side([], [])
        return Look(told, Side(pieces, groups), nothing, nothing, words.pieces)

    @cached_property
    def layout(self) -> Layout:
        assert isinstance(self.loaded.config, ReaderConfig)
        return Layout(self.tokenizer, self.loaded.config, self.max_length)

    @property
    def question(self) -> str:
        return self.layout.config.question

    def example(self, line: str, number: int = 1) -> Example:
        """What a line asks; raises UserError where it does not hold what it should."""
        texts = tuple(line.split()) if self.question == "tagging" else tuple(line.split("\t"))
        pairs = self.layout.config.pairs
        fits = {"choice": len(texts) >= 3, "spans": len(texts) == 2, "tagging": True}
        if not fits.get(self.question, len(texts) == 1 + pairs):
            wanted = ASKED[self.question].removesuffix(", or two") if not pairs else "two texts"
            wanted = ASKED[self.question] if self.question in fits else wanted
            raise UserError(f"line {number} holds {len(texts)} parts; give {wanted}, with a tab between them")
        return Example(texts, None, number)

    def answer(self, examples: Sequence[Example], tick: Callable[[int], None] | None = None) -> list[Answer]:
        tokens = TOGETHER if self.batch_size is None else self.batch_size * self.max_length
        asked = [self.example(each) if isinstance(each, str) else each for each in listed(examples)]
        return answers(self.model, self.layout, asked, tokens, tick)

    def predictions(
        self, examples: Sequence[Example], tick: Callable[[int], None] | None = None
    ) -> tuple[list[Any], list[Any]]:
        """What is said of labelled examples, and what was wanted."""
        return [each.said for each in self.answer(examples, tick)], wanted_of(self.question, examples)

    def explain(self, line: str) -> Explanation:
        """What each token looked at."""
        import torch

        if not line.strip():
            raise UserError("the text is blank; give one to look at")
        trace, unit = Trace(), next(self.layout.units([self.example(line)]))
        batch = Batch.of([unit[:1]])  # of choices the first
        check_size(self.model, *[batch.texts.tokens.shape[1]] * 2)
        with torch.no_grad():
            self.model.see(batch.texts, batch.segments, Site(trace=trace))
        if not trace.records:
            raise UserError("there is no attention in this model")
        maps = {f"encoder.{i}.self": weights[0] for i, weights in enumerate(trace.maps().values())}
        return Explanation(batch.rows[0].ids, [], torch.zeros(0), [], maps)
