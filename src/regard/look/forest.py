"""Systems compared, a row for each: quality with its interval, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import TypeGuard

from regard.errors import UserError
from regard.look.curve import FONT, GAP, _ticks
from regard.look.labels import drawing, fit, markup, pixels

ROW, QUALITY, COST = 28, 400, 180  # pixels: of a row, and across the two plots
LONGEST = 40  # columns of a name
INK, GRID, FAINT = "#08306b", "#dddddd", "#84cbee"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system; numbers that are not finite are told instead of drawn."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None
    seeds: Sequence[float] = ()
    flops: float | None = None
    """Of training."""
    columns: tuple[str, ...] = ()
    """What stands to the right."""


def forest(rows: Sequence[Row], title: str, quality: str = "quality", heads: Sequence[str] = ()) -> str:
    """An SVG of rows from top to bottom, over one axis of quality and one of FLOPs; `heads` name the columns."""
    if not rows:
        raise UserError("no systems to draw; give at least one")
    names = [fit(row.name, LONGEST).strip() for row in rows]
    columns = list(zip(*(row.columns for row in rows), strict=True))
    left = round(2 * GAP + max(pixels(name, FONT) for name in names) + GAP)
    middle = left + QUALITY + 8 * GAP
    top = 3 * GAP + 2 * FONT
    bottom = top + ROW * len(rows)
    body = [f'<text x="{GAP}" y="{GAP + FONT}">{markup(title)}</text>']
    drawn = [x for row in rows for x in (row.mean, row.low, row.high, *row.seeds) if _finite(x)]
    better = _Axis(left, QUALITY, _ticks(drawn or [0.0, 1.0]))
    cost = _Axis(middle, COST, _powers([row.flops for row in rows if _finite(row.flops) and row.flops > 0]))
    body += better.ticks(top, bottom, quality) + cost.ticks(top, bottom, "training FLOPs")
    for i, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = top + ROW * i + ROW // 2
        body.append(f'<text x="{left - GAP}" y="{y + 4}" text-anchor="end">{markup(name)}')
        body[-1] += f"<title>{markup(row.name)}</title></text>"
        body += _quality(row, better, y) + _cost(row, cost, y)
    x: float = middle + COST + 2 * GAP
    for head, column in zip(heads, columns, strict=True):
        x += max(pixels(text, FONT) for text in (head, *column)) + 2 * GAP
        body.append(f'<text x="{x:.0f}" y="{top - GAP}" text-anchor="end" fill="#666666">{markup(head)}</text>')
        for i, text in enumerate(column):
            at = top + ROW * i + ROW // 2 + 4
            body.append(f'<text x="{x:.0f}" y="{at}" text-anchor="end">{markup(text)}</text>')
    lines = " ".join(f"M{GAP} {top + ROW * i}H{x:.0f}" for i in range(len(rows)))
    body.insert(0, f'<path d="{lines}" stroke="#eeeeee"/>')
    width = max(x, GAP + pixels(title, FONT)) + 2 * GAP
    return drawing(width, bottom + 3 * GAP + 2 * FONT, title, body)


@dataclass(frozen=True)
class _Axis:
    """From places on a scale to pixels."""

    left: int
    width: int
    marks: list[tuple[float, str]]

    def at(self, value: float) -> str:
        low, high = self.marks[0][0], self.marks[-1][0]
        return f"{self.left + self.width * (value - low) / (high - low):.1f}"

    def ticks(self, top: int, bottom: int, name: str) -> list[str]:
        """The axis below, with its numbers and its name, and a line up from each number."""
        made = [f'<path d="M{self.at(value)} {top}V{bottom}" stroke="{GRID}"/>' for value, _ in self.marks]
        room = self.width / (len(self.marks) - 1)
        every = ceil((max(pixels(text, FONT) for _, text in self.marks) + GAP) / room)
        for value, text in self.marks[::every]:
            made.append(f'<text x="{self.at(value)}" y="{bottom + GAP + FONT}" text-anchor="middle">{text}</text>')
        made.append(f'<path d="M{self.left} {bottom}h{self.width}" stroke="#000000"/>')
        place = f'x="{self.left + self.width // 2}" y="{bottom + 2 * GAP + 2 * FONT}"'
        return [*made, f'<text {place} text-anchor="middle">{markup(name)}</text>']


def _quality(row: Row, axis: _Axis, y: int) -> list[str]:
    made = [f'<circle cx="{axis.at(x)}" cy="{y + 9}" r="2.5" fill="{FAINT}"/>' for x in row.seeds if _finite(x)]
    if not _finite(row.mean):
        return [*made, f'<text x="{axis.left + GAP}" y="{y + 4}" fill="#c62828">{row.mean}</text>']
    if _finite(row.low) and _finite(row.high):
        low, high = axis.at(row.low), axis.at(row.high)
        path = f"M{low} {y}H{high}M{low} {y - 5}v10M{high} {y - 5}v10"
        made.append(f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.5"/>')
    return [*made, f'<circle cx="{axis.at(row.mean)}" cy="{y}" r="5" fill="{INK}"/>']


def _cost(row: Row, axis: _Axis, y: int) -> list[str]:
    if not _finite(row.flops) or row.flops <= 0:
        return [f'<text x="{axis.left + GAP}" y="{y + 4}" fill="#666666">–</text>']
    return [f'<circle cx="{axis.at(log10(row.flops))}" cy="{y}" r="5" fill="#e8891c"/>']


def _powers(values: list[float]) -> list[tuple[float, str]]:
    """Round numbers around all values, at most six of them; their places are logarithms."""
    low, high = (log10(min(values)), log10(max(values))) if values else (0.0, 1.0)
    if high - low < 0.1:
        low, high = low - 0.1, high + 0.1
    for every, parts in ((1, (1, 2, 5)), (1, (1,)), (2, (1,)), (5, (1,)), (20, (1,)), (200, (1,))):
        powers = range(every * floor(low / every), ceil(high) + every + 1, every)
        marks = [(power + log10(part), f"{part}e{power}") for power in powers for part in parts]
        first = max(i for i, (place, _) in enumerate(marks) if place <= low)
        last = min(i for i, (place, _) in enumerate(marks) if place >= high)
        if last - first < 6:
            break
    return marks[first : last + 1]


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and isfinite(value)
