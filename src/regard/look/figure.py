"""The figure of attention: which source words each target word looked at [Bahdanau+ 2015, fig. 3]."""

from dataclasses import dataclass
from math import cos, radians, sin
from typing import Any

from regard.errors import UserError
from regard.look.charts import drawn, new_figure
from regard.look.labels import clusters, columns, drawing, fit, markup, pixels, visible

SLACK = 1e-3  # by which a weight in half precision may miss [0, 1]
COLUMNS = 100  # of a terminal
LABEL = 12  # columns that target words get however many source words there are
STACK = 20  # characters of a source word on top of one another
CELL, FONT, GAP, SLANT = 20, 12, 6, 60  # pixels of the drawing, and degrees


@dataclass(frozen=True)
class Picture:
    """Weights in 0..1: row t is what target word t gave to each source word."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.source or not self.target:
            raise UserError("a picture needs a source word and a target word; give at least one of each")
        if len(self.weights) != len(self.target):
            raise UserError(f"{len(self.weights)} rows of weights for {len(self.target)} target words; give one each")
        for i, row in enumerate(self.weights):
            where = f"row {i + 1} of the weights ({self.target[i]!r})"
            if len(row) != len(self.source):
                raise UserError(f"{where} has {len(row)} entries for {len(self.source)} source words; give one each")
            for weight in row:
                if not -SLACK <= weight <= 1 + SLACK:
                    raise UserError(f"{where} holds {weight}; weights lie between 0 and 1, as softmax leaves them")

    def terminal(self, color: bool) -> str:
        """A heat map of at most 100 columns; where the source is too long, in several panels one below another."""
        room = max(columns("".join(clusters(word))) for word in self.target)
        room = min(room, max(LABEL, COLUMNS - 1 - 2 * len(self.source)))
        panel = (COLUMNS - 1 - room) // 2
        lines = [fit(self.title, COLUMNS).lstrip()] if self.title else []
        for start in range(0, len(self.source), panel):
            lines += [" " * (room + 1) + line for line in _stacked(self.source[start : start + panel])]
            for word, row in zip(self.target, self.weights, strict=True):
                cells = "".join(_shade(weight, color) for weight in row[start : start + panel])
                lines.append(f"{fit(word, room)} {cells}")
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """The paper's figure, black for 0 to white for 1; pointing at a cell tells its weight."""
        left = round(GAP + max(pixels(word, FONT) for word in self.target) + GAP)
        lean, rise = cos(radians(SLANT)), sin(radians(SLANT))
        head = 2 * FONT if self.title else 0
        top = round(GAP + head + max(pixels(word, FONT) for word in self.source) * rise + FONT)
        ends = [left + (i + 1) * CELL + pixels(word, FONT) * lean for i, word in enumerate(self.source)]
        right, bottom = left + CELL * len(self.source), top + CELL * len(self.target)
        body = [f'<text x="{GAP}" y="{GAP + FONT}">{markup(self.title)}</text>'] if self.title else []
        for i, word in enumerate(self.source):
            x, y = left + i * CELL + CELL * 0.7, top - GAP
            body.append(f'<text x="{x:g}" y="{y}" transform="rotate(-{SLANT} {x:g} {y})">{markup(word)}</text>')
        for i, word in enumerate(self.target):
            line = top + i * CELL + CELL * 0.7
            body.append(f'<text x="{left - GAP}" y="{line:g}" text-anchor="end">{markup(word)}</text>')
        body.append('<g shape-rendering="crispEdges">')
        for t, row in enumerate(self.weights):
            for s, weight in enumerate(map(_clipped, row)):
                tip = markup(f"{self.target[t]} ← {self.source[s]}: {weight:.2f}")
                place = f'x="{left + s * CELL}" y="{top + t * CELL}" width="{CELL}" height="{CELL}"'
                body.append(f'<rect {place} fill="#{f"{round(255 * weight):02x}" * 3}"><title>{tip}</title></rect>')
        frame = f"M{left} {top}H{right}V{bottom}H{left}Z"
        body += [f'<path d="{frame}" fill="none" stroke="#000000"/>', "</g>"]
        width = max(*ends, right, GAP + pixels(self.title, FONT)) + GAP
        return drawing(width, bottom + GAP, self.title or "attention", body)

    def png(self) -> bytes:
        """The same figure, as dots."""
        figure = new_figure(1 + 0.3 * len(self.source), 1 + 0.3 * len(self.target))
        axes = figure.subplots()
        axes.imshow(self.weights, cmap="gray", vmin=0, vmax=1, interpolation="none")
        axes.xaxis.tick_top()
        slanted: dict[str, Any] = {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(self.source)), [visible(word) for word in self.source], **slanted)
        axes.set_yticks(range(len(self.target)), [visible(word) for word in self.target])
        axes.tick_params(length=0)
        axes.set_title(visible(self.title))
        return drawn(figure, "png")


def _clipped(weight: float) -> float:
    return min(max(weight, 0.0), 1.0)


def _shade(weight: float, color: bool) -> str:
    """A cell of two columns, dark for 0 on a dark terminal as in the drawing."""
    weight = _clipped(weight)
    return f"\x1b[48;5;{232 + round(23 * weight)}m  \x1b[0m" if color else " ░▒▓█"[round(4 * weight)] * 2


def _stacked(words: list[str]) -> list[str]:
    """Words written downwards, each two columns wide, standing on the same line."""
    stacks = []
    for word in words:
        letters = clusters(word)
        stacks.append(letters if len(letters) <= STACK else [*letters[: STACK - 1], "⋮"])
    height = max(map(len, stacks))
    padded = [[" "] * (height - len(stack)) + stack for stack in stacks]
    return ["".join(letter + " " * (2 - columns(letter)) for letter in line) for line in zip(*padded, strict=True)]
