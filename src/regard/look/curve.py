"""Curves of training: a small line chart."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, isfinite, log10

from regard.errors import UserError
from regard.look.labels import drawing, markup, pixels

COLORS = ("#000000", "#08306b", "#c62828", "#3a9a5c", "#e8891c", "#84cbee")  # from dark to light, to tell in grey too
WIDTH, HEIGHT, FONT, GAP = 480, 300, 12, 8  # of the plot and of what stands around it, in pixels


def curve(points: dict[str, list[tuple[float, float]]], x: str, y: str, title: str) -> str:
    """An SVG of up to six named series over the same axes; a line has a gap where a value is not finite."""
    if not 1 <= len(points) <= len(COLORS):
        raise UserError(f"{len(points)} series to draw; give from 1 to {len(COLORS)}")
    for name, series in points.items():
        if not any(_finite(point) for point in series):
            raise UserError(f"series {name!r} has no finite point to draw; leave it out")
    shown = [point for series in points.values() for point in series if _finite(point)]
    across, up = _ticks(point[0] for point in shown), _ticks(point[1] for point in shown)
    left = round(2 * GAP + FONT + max(pixels(text, FONT) for _, text in up) + GAP)
    top, plot = 2 * GAP + 2 * FONT, (across[0][0], across[-1][0], up[0][0], up[-1][0])

    def place(point: tuple[float, float]) -> str:
        return (
            f"{left + WIDTH * (point[0] - plot[0]) / (plot[1] - plot[0]):.1f} "
            f"{top + HEIGHT * (plot[3] - point[1]) / (plot[3] - plot[2]):.1f}"
        )

    body = [f'<text x="{GAP}" y="{GAP + FONT}">{markup(title)}</text>']
    for value, text in up:
        at = place((plot[0], value)).split()[1]
        body.append(f'<path d="M{left} {at}h{WIDTH}" stroke="#dddddd"/>')
        body.append(f'<text x="{left - GAP}" y="{float(at) + 4:g}" text-anchor="end">{text}</text>')
    for value, text in across:
        at = place((value, plot[2])).split()[0]
        body.append(f'<path d="M{at} {top + HEIGHT}v5" stroke="#000000"/>')
        body.append(f'<text x="{at}" y="{top + HEIGHT + GAP + FONT}" text-anchor="middle">{text}</text>')
    body.append(f'<path d="M{left} {top}V{top + HEIGHT}H{left + WIDTH}" fill="none" stroke="#000000"/>')
    foot = top + HEIGHT + 2 * GAP + 2 * FONT
    middle = top + HEIGHT // 2
    body.append(f'<text x="{left + WIDTH // 2}" y="{foot}" text-anchor="middle">{markup(x)}</text>')
    turned = f'text-anchor="middle" transform="rotate(-90 {GAP + FONT} {middle})"'
    body.append(f'<text x="{GAP + FONT}" y="{middle}" {turned}>{markup(y)}</text>')
    legend = left + WIDTH + 2 * GAP
    for i, (name, series) in enumerate(points.items()):
        line = f'fill="none" stroke="{COLORS[i]}" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"'
        runs = " ".join("M" + " L".join(map(place, run)) for run in _runs(series))
        at_y = top + GAP + i * (FONT + GAP)
        body.append(f'<path d="{runs}" {line}/>')
        body.append(f'<path d="M{legend} {at_y}h20" {line}/>')
        body.append(f'<text x="{legend + 20 + GAP}" y="{at_y + 4}">{markup(name)}</text>')
    names = legend + 20 + GAP + max(pixels(name, FONT) for name in points)
    return drawing(max(names, GAP + pixels(title, FONT)) + GAP, foot + GAP, title, body)


def _finite(point: tuple[float, float]) -> bool:
    return isfinite(point[0]) and isfinite(point[1])


def _runs(series: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The stretches of finite points; a point alone is given twice, which draws a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in series:
        if _finite(point):
            runs[-1].append(point)
        else:
            runs.append([])
    return [run if len(run) > 1 else run * 2 for run in runs if run]


def _ticks(values: Iterable[float]) -> list[tuple[float, str]]:
    """Round numbers about a fifth of the range apart, from at or below the least value to at or above the greatest."""
    every = list(values)
    low, high = min(every), max(every)
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size:  # a flat line gets a range of its own size, for there is none to divide
        low, high = low - (size or 1) / 2, high + (size or 1) / 2
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    marks = [i * step for i in range(floor(low / step), ceil(high / step) + 1)]
    decimals = max(0, -floor(log10(step) + 1e-9))
    plain = 1e-6 < step < 1e7
    return [(mark, f"{mark:.{decimals}f}" if plain else f"{mark:.6g}") for mark in marks]
