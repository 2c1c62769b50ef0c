"""Encoders and readers as Python users meet them."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import UserError
from regard.look.look import Look, Side
from regard.look.model import look
from regard.tasks.answerer import Answerer
from regard.tasks.filler import Filled, Filler
from regard.tasks.reading import Answer

MARKS = ("[start]", "[between]", "[extract]")  # of decoders, which no tokenizer knows


class BlankModel(Filler):
    """An encoder: `model("The [MASK] barks")` fills blanks, `model.vectors(texts)` makes vectors."""

    def __call__(self, texts: str | Sequence[str]) -> Filled | list[Filled]:
        found = self.fill([texts] if isinstance(texts, str) else texts)
        return found[0] if isinstance(texts, str) else found

    def attend(self, text: str, target: str | None = None) -> Look:
        _check_silent(target)
        return look(self, self.explain(text))


class ReaderModel(Answerer):
    """A reader: `model("a fine film")`, or `model(["a cat\\ta dog", ...])` of texts with a tab between their parts."""

    def __call__(self, texts: str | Sequence[str]) -> Answer | list[Answer]:
        lines = [texts] if isinstance(texts, str) else texts
        found = self.answer([self.example(line, number) for number, line in enumerate(lines, 1)])
        return found[0] if isinstance(texts, str) else found

    def attend(self, text: str, target: str | None = None) -> Look:
        _check_silent(target)
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


def _check_silent(target: str | None) -> None:
    if target is not None:
        raise UserError("this model says nothing of its own, so it goes without --target")
