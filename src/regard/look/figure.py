"""The figure of attention: which source words each target word looked at [Bahdanau+ 2015, fig. 3]."""

from dataclasses import dataclass
from math import cos, radians, sin
from typing import Any

from rich.cells import cell_len

from regard.data.axes import Axis
from regard.errors import UserError
from regard.look.charts import drawn, new_figure
from regard.look.labels import clusters, drawing, fit, markup, pixels, visible

SLACK = 1e-3  # by which a weight in half precision may miss [0, 1]
COLUMNS = 100  # of a terminal
LABEL = 12  # columns that target words get however many source words there are
STACK = 20  # characters of a source word on top of one another
CELL, FONT, GAP, SLANT = 20, 12, 6, 60  # pixels of the drawing, and degrees
SPAN, LINE = 800, 32  # pixels of all places of a side that is no text, about, and from one label to the next


def spacing(axis: Axis) -> tuple[int, int]:
    """Pixels of a place, and which places are labelled: every one of a text, or else every so many."""
    size = CELL if axis.kind == "text" else max(2, min(CELL, SPAN // len(axis.labels)))
    steps = (n * axis.period for n in (1, 2, 5, 10, 20, 50, 100) if n * axis.period * size >= LINE)
    return size, 1 if size == CELL else next(steps, len(axis.labels))


@dataclass(frozen=True)
class Picture:
    """Weights in 0..1: row t is what target word t gave to each source word."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]
    title: str = ""
    across: tuple[int, int] = (CELL, 1)
    down: tuple[int, int] = (CELL, 1)  # the `spacing` of source and target
    white: float = 1.0  # the weight that is drawn white

    def __post_init__(self) -> None:
        assert self.source
        assert self.target
        for word, row in zip(self.target, self.weights, strict=True):
            assert len(row) == len(self.source), f"{len(row)} weights of {word!r} for {len(self.source)} columns"
            if odd := [weight for weight in row if not -SLACK <= weight <= 1 + SLACK]:
                raise UserError(f"weights of {word!r} hold {odd[0]}; they lie between 0 and 1, as softmax leaves them")

    def terminal(self, color: bool) -> str:
        """A heat map of at most 100 columns; where the source is too long, in several panels one below another."""
        room = max(cell_len("".join(clusters(word))) for word in self.target)
        room = min(room, max(LABEL, COLUMNS - 1 - 2 * len(self.source)))
        panel = (COLUMNS - 1 - room) // 2
        above = [word if i % self.across[1] == 0 else "" for i, word in enumerate(self.source)]
        beside = [word if i % self.down[1] == 0 else "" for i, word in enumerate(self.target)]
        lines = [fit(self.title, COLUMNS).lstrip()] if self.title else []
        for start in range(0, len(self.source), panel):
            lines += [" " * (room + 1) + line for line in _stacked(above[start : start + panel])]
            for word, row in zip(beside, self.weights, strict=True):
                cells = "".join(_shade(weight / self.white, color) for weight in row[start : start + panel])
                lines.append(f"{fit(word, room)} {cells}")
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """The paper's figure, black for 0 to white; pointing at a cell tells its weight."""
        left = round(GAP + max(pixels(word, FONT) for word in self.target) + GAP)
        lean, rise = cos(radians(SLANT)), sin(radians(SLANT))
        head = 2 * FONT if self.title else 0
        top = round(GAP + head + max(pixels(word, FONT) for word in self.source) * rise + FONT)
        (wide, each), (high, every) = self.across, self.down
        above, beside = list(enumerate(self.source))[::each], list(enumerate(self.target))[::every]
        ends = [left + (i + 1) * wide + pixels(word, FONT) * lean for i, word in above]
        right, bottom = left + wide * len(self.source), top + high * len(self.target)
        body = [f'<text x="{GAP}" y="{GAP + FONT}">{markup(self.title)}</text>'] if self.title else []
        for i, word in above:
            x, y = left + i * wide + wide * 0.5 + 0.2 * CELL, top - GAP
            body.append(f'<text x="{x:g}" y="{y}" transform="rotate(-{SLANT} {x:g} {y})">{markup(word)}</text>')
        for i, word in beside:
            line = top + i * high + high * 0.5 + 0.2 * CELL
            body.append(f'<text x="{left - GAP}" y="{line:g}" text-anchor="end">{markup(word)}</text>')
        body.append('<g shape-rendering="crispEdges">')
        for t, row in enumerate(self.weights):
            for s, weight in enumerate(row):  # if it misses [0, 1] by SLACK, it is rounded into it
                tip = markup(f"{self.target[t]} ← {self.source[s]}: {weight:z.2f}")
                place = f'x="{left + s * wide}" y="{top + t * high}" width="{wide}" height="{high}"'
                grey = f"{round(255 * weight / self.white):02x}" * 3
                body.append(f'<rect {place} fill="#{grey}"><title>{tip}</title></rect>')
        frame = f"M{left} {top}H{right}V{bottom}H{left}Z"
        body += [f'<path d="{frame}" fill="none" stroke="#000000"/>', "</g>"]
        width = max(*ends, right, GAP + pixels(self.title, FONT)) + GAP
        return drawing(width, bottom + GAP, self.title or "attention", body)

    def png(self) -> bytes:
        """The same figure, as dots."""
        (wide, each), (high, every) = self.across, self.down
        figure = new_figure(1 + 0.3 * (len(self.source) * wide / CELL), 1 + 0.3 * (len(self.target) * high / CELL))
        axes = figure.subplots()
        axes.imshow(self.weights, cmap="gray", vmin=0, vmax=self.white, interpolation="none", aspect=high / wide)
        axes.xaxis.tick_top()
        slanted: dict[str, Any] = {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
        axes.set_xticks(range(0, len(self.source), each), list(map(visible, self.source[::each])), **slanted)
        axes.set_yticks(range(0, len(self.target), every), list(map(visible, self.target[::every])))
        axes.tick_params(length=0)
        axes.set_title(visible(self.title))
        return drawn(figure, "png")


def _shade(weight: float, color: bool) -> str:
    """A cell of two columns, dark for 0 on a dark terminal as in the drawing."""
    return f"\x1b[48;5;{232 + round(23 * weight)}m  \x1b[0m" if color else " ░▒▓█"[round(4 * weight)] * 2


def _stacked(words: list[str]) -> list[str]:
    """Words written downwards, each two columns wide, standing on the same line."""
    stacks = []
    for word in words:
        letters = clusters(word)
        stacks.append(letters if len(letters) <= STACK else [*letters[: STACK - 1], "⋮"])
    height = max(map(len, stacks))
    padded = [[" "] * (height - len(stack)) + stack for stack in stacks]
    return ["".join(letter + " " * (2 - cell_len(letter)) for letter in line) for line in zip(*padded, strict=True)]
