"""A model as Python users meet it: call it, and look at what it looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.engine.explain import Explanation
from regard.errors import UserError
from regard.files import write
from regard.look.figure import Picture
from regard.tasks.translator import Translator


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

    def picture(self, path: str | None = None, head: int | None = None, *, pieces: bool = False) -> Picture:
        """Of one site (default: the last that looks across), of one head or their mean, by words or by pieces."""
        across = [name for name in self.told.maps if name.endswith("cross")]
        if not across:
            raise UserError("this model has no attention to look at; train one with attention")
        path = path or across[-1]
        if path not in self.told.maps:
            raise UserError(f"there is no attention at {path!r}; choose {', '.join(self.told.maps)}")
        sides = {"encoder": (0, 0), "decoder": (1, 1)}[path.split(".")[0]] if path.endswith("self") else (1, 0)
        groups = [(self.columns, self.rows)[side] for side in sides]
        labels = [(self.source, self.target)[side] for side in sides]
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
        source, target_side = self.tokenizers.source, self.tokenizers.target
        return Look(
            told,
            source.pieces(told.source),
            target_side.pieces(told.target),
            target_side.words(told.target),
            source.words(told.source),
        )


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
