"""An encoder as Python users meet it."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import UserError
from regard.look.look import Look
from regard.look.model import look
from regard.tasks.filler import Filled, Filler


class BlankModel(Filler):
    """An encoder: `model("The [MASK] barks")` fills blanks, `model.vectors(texts)` makes vectors."""

    def __call__(self, texts: str | Sequence[str]) -> Filled | list[Filled]:
        found = self.fill([texts] if isinstance(texts, str) else texts)
        return found[0] if isinstance(texts, str) else found

    def attend(self, text: str, target: str | None = None) -> Look:
        if target is not None:
            raise UserError("this model says nothing of its own, so it goes without --target")
        return look(self, self.explain(text))
