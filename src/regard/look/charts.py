"""Charts, by matplotlib: lines over the same axes, and systems compared."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.look.labels import fit, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#000000", "#08306b", "#c62828", "#3a9a5c", "#e8891c", "#84cbee")  # from dark to light, to tell in grey too
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei")  # the first with a letter draws it
INK, GRID, FAINT, COST = "#08306b", "#dddddd", "#84cbee", "#e8891c"
LONGEST = 40  # columns of a name
LETTER = 7.0  # points, about, of a letter's width


class NoMatplotlibError(UserError):
    """It is not installed."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system; numbers that are not finite are told instead of drawn."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None
    seeds: Sequence[float] = ()
    flops: float | None = None  # of training
    columns: tuple[str, ...] = ()  # what stands to the right


def curve(points: dict[str, list[tuple[float, float]]], x: str, y: str, title: str) -> str:
    """An SVG of up to six named series over the same axes; a line has a gap where a value is not finite."""
    if not 1 <= len(points) <= len(COLORS):
        raise UserError(f"{len(points)} series to draw; give from 1 to {len(COLORS)}")
    figure = new_figure(7.0, 4.0)
    axes = figure.subplots()
    for color, (name, series) in zip(COLORS, points.items(), strict=False):
        if not any(isfinite(a) and isfinite(b) for a, b in series):
            raise UserError(f"series {name!r} has no finite point to draw; leave it out")
        axes.plot(*zip(*series, strict=True), color=color, linewidth=2, marker="o", markersize=2)
    axes.legend(axes.lines, list(map(visible, points)), loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.set(xlabel=visible(x), ylabel=visible(y), title=visible(title))
    axes.grid(axis="y", color=GRID)
    return drawn(figure, "svg").decode()


def forest(rows: Sequence[Row], title: str, quality: str = "quality", heads: Sequence[str] = ()) -> str:
    """An SVG of rows from top to bottom, over one axis of quality and one of FLOPs; `heads` name the columns."""
    if not rows:
        raise UserError("no systems to draw; give at least one")
    figure = new_figure(8.0, 1.2 + 0.36 * len(rows))
    from matplotlib.ticker import LogLocator

    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    left.set(xlabel=visible(quality), ylim=(len(rows) - 0.4, -0.6))
    left.set_yticks(range(len(rows)), [fit(row.name, LONGEST).strip() for row in rows])
    left.set_title(visible(title), loc="left", x=0, pad=24)
    right.set(xlabel="training FLOPs", xscale="log")
    costs = [cost for row in rows if 0 < (cost := row.flops or 0.0) < inf]
    within = max(costs, default=1.0) < 30 * min(costs, default=1.0)  # where powers of ten would be too few
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if within else (1,)))
    right.xaxis.set_major_formatter("{x:.0e}")
    right.xaxis.set_minor_formatter("")
    for axes in (left, right):
        axes.grid(axis="x", color=GRID)
        axes.tick_params(axis="y", length=0)
    for y, row in enumerate(rows):
        _quality(left, row, y)
        if row.flops in costs:
            right.plot(row.flops, y, "o", color=COST)
        else:
            right.annotate("–", (0.02, y), xycoords=("axes fraction", "data"), va="center")
    at = 0.0
    for number, head in enumerate(heads):
        texts = [head, *(row.columns[number] for row in rows)]
        at += LETTER * (2 + max(map(len, texts)))
        for y, text in enumerate(texts, -1):
            place: dict[str, Any] = {"xytext": (at, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
            right.annotate(visible(text), (1, y), xycoords=("axes fraction", "data"), annotation_clip=False, **place)
    return drawn(figure, "svg").decode()


def _quality(axes: Any, row: Row, y: int) -> None:
    axes.plot(row.seeds, [y + 0.3] * len(row.seeds), ".", color=FAINT)  # without those that are not finite
    if not isfinite(row.mean):
        axes.annotate(str(row.mean), (0.02, y), xycoords=("axes fraction", "data"), va="center", color="#c62828")
        return
    if row.low is not None and row.high is not None and isfinite(row.high - row.low):
        axes.errorbar((row.low + row.high) / 2, y, xerr=(row.high - row.low) / 2, color=INK, capsize=4)
    axes.plot(row.mean, y, "o", color=INK)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of a size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NoMatplotlibError("this picture needs matplotlib: pip install 'regard[plots]'") from error
    return Figure(figsize=(width, height))


def drawn(figure: "Figure", form: str) -> bytes:
    """The same bytes for the same figure; every text as it is, with no markup in it."""
    import matplotlib
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    here = {font.name for font in fontManager.ttflist}
    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_fontfamily([name for name in FONTS if name in here])
    out = BytesIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "regard", "savefig.dpi": 150}
    with warnings.catch_warnings(action="ignore"), matplotlib.rc_context(settings):  # of letters that no font here has
        figure.savefig(out, format=form, bbox_inches="tight", metadata={"Date": None} if form == "svg" else None)
    return out.getvalue()
