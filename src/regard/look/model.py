"""A model as Python users meet it: call it, and look at what it looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.files import write
from regard.look.figure import Picture
from regard.tasks.folder import Loaded
from regard.tasks.ready import Ready
from regard.tasks.teller import Teller
from regard.tasks.translator import Translator

if TYPE_CHECKING:
    from torch import Tensor

    from regard.engine.explain import Explanation


@dataclass(frozen=True, eq=False)
class Look:
    """The attention of one output: a picture of it, and every layer's and head's weights."""

    told: Explanation
    source: list[str]
    target: list[str]
    rows: list[int]
    """Which word each piece of the target belongs to."""
    columns: list[int]
    """Likewise for the source."""
    start: str = "<start>"
    """What the first step took for the word before."""

    def picture(self, path: str | None = None, head: int | None = None, *, pieces: bool = False) -> Picture:
        """Of one site (default: the last that looks across, or else at itself), of one head or their mean, by words or
        by pieces."""
        if not self.told.maps:
            raise UserError("this model has no attention to look at; train one with attention")
        path = path or ([name for name in self.told.maps if name.endswith("cross")] or list(self.told.maps))[-1]
        if path not in self.told.maps:
            raise UserError(f"there is no attention at {path!r}; choose {', '.join(self.told.maps)}")
        source, target = (self.source, self.columns), (self.target, self.rows)
        taken = ([self.start, *self.target[:-1]], [-1, *self.rows[:-1]])  # what each step knew of the target
        both = {"encoder": (source, source), "decoder": (target, taken)}[path.split(".")[0]]
        (rows, row_groups), (columns, column_groups) = both if path.endswith("self") else (target, source)
        labels, groups = [rows, columns], [row_groups, column_groups]
        if pieces:
            weights, words = self.told.maps[path], labels
        else:
            weights = self.told.merged(path, *groups)
            words = [_joined(names, group) for names, group in zip(labels, groups, strict=True)]
        return Picture(words[1], words[0], _head(weights, head, path).tolist())

    def json(self) -> dict[str, Any]:
        """Everything, labelled."""
        maps = {path: weights.tolist() for path, weights in self.told.maps.items()}
        return {
            "source": self.source,
            "target": self.target,
            "log_probs": self.told.log_probs.tolist(),
            "attention": maps,
        }

    def save(self, path: str | Path) -> None:
        """As a picture (.svg) or as data (.json)."""
        path = Path(path)
        if path.suffix not in (".svg", ".json"):
            raise UserError(f"{path}: no picture is made as {path.suffix or 'no kind at all'}; use .svg or .json")
        text = self.picture().svg() if path.suffix == ".svg" else json.dumps(self.json(), ensure_ascii=False)
        write(path, text.encode())

    def _repr_svg_(self) -> str:
        """Notebooks show the picture."""
        return self.picture().svg()


class Model(Translator):
    """A trained model: `model("I ate an apple")`, `model.attend("I ate an apple").save("fig.svg")`."""

    def __call__(self, texts: str | Sequence[str]) -> str | list[str]:
        found = self.translate([texts] if isinstance(texts, str) else texts)
        said = [self.text(hypotheses[0]) if hypotheses else "" for hypotheses in found]
        return said[0] if isinstance(texts, str) else said

    def attend(self, text: str, target: str | None = None) -> Look:
        (told,) = self.explain([text], None if target is None else self.spelled([target]))
        return look(self, told)


class TextModel(Teller):
    """A language model: `model("Once upon a time")` tells what follows."""

    def __call__(self, texts: str | Sequence[str], *, stop: Sequence[str] = ()) -> str | list[str]:
        found = self.tell([texts] if isinstance(texts, str) else texts, stop=stop)
        said = [self.text(hypotheses[0], stop) for hypotheses in found]
        return said[0] if isinstance(texts, str) else said

    def attend(self, text: str, target: str | None = None) -> Look:
        return look(self, self.explain(text, target))


def ready(loaded: Loaded, **options: Any) -> Any:
    """The model, to be called."""
    if loaded.task == "masked":
        from regard.look.blank import BlankModel

        return BlankModel(loaded, **options)
    return {"translation": Model, "language": TextModel}[loaded.task](loaded, **options)


def look(model: Ready, told: Explanation) -> Look:
    source, target = model.tokenizers.source, model.tokenizers.target
    start = target.pieces([model.start])[0]
    words = target.words(told.target), source.words(told.source)
    return Look(told, source.pieces(told.source), target.pieces(told.target), *words, start)


def _head(weights: Tensor, head: int | None, path: str) -> Tensor:
    if head is None:
        return weights.mean(0)
    if not 0 <= head < len(weights):
        raise UserError(f"{path} has heads 0 to {len(weights) - 1}, not {head}")
    return weights[head]


def _joined(pieces: list[str], groups: list[int]) -> list[str]:
    words: dict[int, str] = {}
    for piece, group in zip(pieces, groups, strict=True):
        words[group] = words.get(group, "") + piece
    return [word.replace("▁", " ").strip() or word for word in words.values()]
