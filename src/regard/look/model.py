"""A model as Python users meet it: call it, and look at what it looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard.decode.config import Beam
from regard.errors import UserError
from regard.look.look import Look, Side
from regard.shapes import Padded
from regard.tasks.folder import Loaded
from regard.tasks.ready import Ready
from regard.tasks.teller import Teller
from regard.tasks.translator import Translator

if TYPE_CHECKING:
    from regard.engine.explain import Explanation


MOVES = 128  # words said for which gradients are taken, a pass each
GRADIENT, TREE = 1 << 36, 1 << 34  # multiplications for gradients, and for a search once more: about 2 seconds each


class Model(Translator):
    """A trained model: `model("I ate an apple")`, `model.attend("I ate an apple").save("fig.svg")`."""

    def __call__(self, texts: str | Sequence[str]) -> str | list[str]:
        found = self.translate([texts] if isinstance(texts, str) else texts)
        said = [self.text(hypotheses[0]) if hypotheses else "" for hypotheses in found]
        return said[0] if isinstance(texts, str) else said

    def attend(self, text: str, target: str | None = None, *, shown: int | None = None) -> Look:
        """With `shown`, a map of more weights is refused before anything is computed."""
        (source,) = self.tokenizers.read([text], self.tag)
        if len(source) > self.max_length:
            most = f"longer than the {self.max_length} tokens that can be looked at; take a part"
            raise UserError(f"the text has {len(source):,} tokens, {most}")
        (told,) = self.explain([text], None if target is None else self.spelled([target]), shown=shown)
        return look(self, told, searched=target is None)


class TextModel(Teller):
    """A language model: `model("Once upon a time")` tells what follows."""

    def __call__(self, texts: str | Sequence[str], *, stop: Sequence[str] = ()) -> str | list[str]:
        found = self.tell([texts] if isinstance(texts, str) else texts, stop=stop)
        said = [self.text(hypotheses[0], stop) for hypotheses in found]
        return said[0] if isinstance(texts, str) else said

    def attend(self, text: str, target: str | None = None, *, shown: int | None = None) -> Look:
        return look(self, self.explain(text, target, shown=shown))


def ready(loaded: Loaded, **options: Any) -> Any:
    """The model, to be called."""
    kinds: dict[str, Any] = {"translation": Model, "language": TextModel}
    if loaded.task not in kinds:
        from regard.look.encoders import BlankModel, ReaderModel  # here, so that the others cost no torch

        kinds = dict.fromkeys(("masked", "bidirectional"), BlankModel)
        return kinds.get(loaded.task, ReaderModel)(loaded, **options)
    return kinds[loaded.task](loaded, **options)


def look(model: Ready, told: Explanation, *, searched: bool = False) -> Look:
    """With the beam that found it, where it was searched for by one, and with gradients, where they take not long."""
    from regard.engine.explain import saliency
    from regard.look.tree import climb

    source, target = model.tokenizers.source, model.tokenizers.target
    read, said = Side.of(source, told.source), Side.of(target, told.target)
    taken = Side([*target.pieces([told.first]), *said.pieces[:-1]], [-1, *said.groups[:-1]])
    size, steps = sum(p.numel() for p in model.model.parameters()), len(told.target)
    beam = replace(model.search, num_best=model.search.size) if isinstance(model.search, Beam) and searched else None
    beam = beam if beam and steps * beam.size * size <= TREE else None
    moves = 0 < steps <= MOVES and steps * (len(told.source) + steps) * size <= GRADIENT
    shown = Look(
        told, read, said, taken, target.pieces, saliency=lambda: saliency(model.model, told) if moves else None
    )
    return replace(shown, tree=lambda: climb(model.model, Padded.of([told.source]), beam)) if beam else shown
