"""The attention of one output: pictures, data, and a page."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from math import log
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from regard.data.axes import Axis
from regard.data.tokenizer import ENDS
from regard.errors import UserError
from regard.files import write
from regard.look.figure import Picture, spacing
from regard.look.labels import markup

if TYPE_CHECKING:
    from torch import Tensor

    from regard.engine.explain import Explanation
    from regard.look.tree import Tree

MOST = 1 << 22  # numbers of a page
REMARK = "Attention shows where a model looked, which is no explanation of why it said what it said."
SALIENCY = "gradient × input"
MOVED = "By what share each word that was read moved each that was said: a closer answer to why than attention gives."


@dataclass(frozen=True, eq=False)
class Look:
    """The attention of one output: a picture of it, and every layer's and head's weights."""

    told: "Explanation"
    axes: dict[str, Axis]
    """What stands along the "source", the "target", and what each step knew of the target, "taken"."""
    name: Callable[[list[int]], list[str]]
    """Pieces of the target by their numbers."""
    tree: "Callable[[], Tree | None]" = lambda: None
    """The search that found the output."""
    saliency: "Callable[[], Tensor | None]" = lambda: None

    @property
    def maps(self) -> "dict[str, Tensor]":
        """Attention weights by their site: heads x rows x columns, each along one of the `axes`."""
        return self.told.maps

    def picture(self, path: str | None = None, head: int | None = None, *, pieces: bool = False) -> Picture:
        """Of one site (default: the last that looks across, or else at itself), of one head or their mean, by words or
        by pieces."""
        if not self.told.maps:
            raise UserError("this model has no attention to look at; train one with attention")
        path = path or (self.told.across or list(self.told.maps))[-1]
        if path not in self.told.maps:
            raise UserError(f"there is no attention at {path!r}; choose {', '.join(self.told.maps)}")
        rows, columns = (self.axes[side] for side in self.told.axes[path])
        weights = self.told.maps[path] if pieces else self.told.merged(path, rows.groups, columns.groups)
        names = (columns.labels, rows.labels) if pieces else (columns.words, rows.words)
        if head is not None and not 0 <= head < len(weights):
            raise UserError(f"{path} has heads 0 to {len(weights) - 1}, not {head}")
        chosen = weights.mean(0) if head is None else weights[head]
        # Among many steps of a series no weight is near 1.
        white = 1.0 if rows.kind == columns.kind == "text" else float(chosen.max()) or 1.0
        title = "" if white == 1.0 else f"white is {white:.2g}"
        return Picture(*names, chosen.tolist(), title, spacing(columns), spacing(rows), white)

    def json(self) -> dict[str, Any]:
        """Everything, labelled; besides, of each head the entropy of its rows in bits, and how much of each source
        piece it covers."""
        maps = self.told.maps
        return {
            **{side: axis.labels for side, axis in self.axes.items()},
            "kinds": {side: axis.kind for side, axis in self.axes.items()},
            "log_probs": self.told.log_probs.tolist(),
            "attention": {path: weights.tolist() for path, weights in maps.items()},
            "axes": {path: ["head", *axes] for path, axes in self.told.axes.items()},
            "entropy": {path: entropy(weights).mean(-1).tolist() for path, weights in maps.items()},
            "coverage": {path: maps[path].sum(1).tolist() for path in self.told.across},
        }

    def page(self, most: int = MOST) -> dict[str, Any]:
        """What web/view.js draws; numbers are those of the model, in float32."""
        maps = dict(self.told.maps)
        size = sum(weights.numel() for weights in maps.values())
        left_out = []
        for path in sorted(maps, key=lambda path: path in self.told.across):  # what looks across goes last
            if size > most:
                left_out.append(path)
                size -= maps.pop(path).numel()
        if not maps and left_out:
            raise UserError(f"a page shows at most {most:,} weights; take a shorter text, or one `site` as .svg")
        across = self.told.across
        told = [{**_packed(path, w, *self.told.axes[path]), "across": path in across} for path, w in maps.items()]
        if (moved := self.saliency()) is not None:
            read = "source" if len(self.told.source) else "taken"
            told.append({**_packed(SALIENCY, moved[None], "target", read), "remark": MOVED})
        tree = self.tree()
        return {
            "maps": told,
            "left_out": left_out,
            "sides": {name: {**vars(axis), "words": axis.words, "kind": axis.kind} for name, axis in self.axes.items()},
            "log_probs": self.told.log_probs.tolist(),
            "candidates": [[(self.name([word])[0], p) for word, p in step] for step in self.told.likely],
            "tree": [] if tree is None else [{**vars(n), "text": self.name([n.token])[0]} for n in tree.nodes],
        }

    def html(self) -> str:
        target = self.axes["target"]
        words = [word for word in target.words if word not in ENDS and target.kind == "text"]
        return document(" ".join(words) or "attention", self.page())

    def save(self, path: str | Path, site: str | None = None, head: int | None = None, *, pieces: bool = False) -> None:
        """As a picture (.svg, .png), a page (.html) or data (.json)."""
        path = Path(path)
        make: dict[str, Callable[[], bytes]] = {
            ".svg": lambda: self.picture(site, head, pieces=pieces).svg().encode(),
            ".png": lambda: self.picture(site, head, pieces=pieces).png(),
            ".html": lambda: self.html().encode(),
            ".json": lambda: json.dumps(self.json(), ensure_ascii=False).encode(),
        }
        if path.suffix not in make:
            raise UserError(f"{path}: no picture is made as {path.suffix or 'no kind at all'}; use {', '.join(make)}")
        write(path, make[path.suffix]())

    def _repr_svg_(self) -> str:
        """Notebooks show the picture."""
        return self.picture().svg()


def document(title: str, data: dict[str, Any]) -> str:
    """One page that holds everything and needs no network; `data` is what web/view.js draws."""
    web = files("regard.look") / "web"
    page, style, script = ((web / name).read_text("utf-8") for name in ("page.html", "view.css", "view.js"))
    numbers = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # so that no text can end the script
    parts = {"title": markup(title), "style": style, "remark": REMARK, "script": script, "data": numbers}
    return Template(page).substitute(parts)


def entropy(weights: "Tensor") -> "Tensor":
    """Of the last axis, in bits."""
    return weights.xlogy(weights).neg().sum(-1) / log(2)


def _packed(path: str, weights: "Tensor", rows: str, columns: str) -> dict[str, Any]:
    numbers = weights.detach().float().contiguous().numpy().astype("<f4").tobytes()
    shape = {"rows": rows, "columns": columns, "heads": len(weights)}
    return {"name": path, **shape, "weights": base64.b64encode(numbers).decode()}
