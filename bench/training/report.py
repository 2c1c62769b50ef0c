"""From what was measured to a table and a picture."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TypedDict

from bench.training.shapes import CLIP, DROPOUT, SHAPES, SMOOTHING, VOCABULARY
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

Done = dict[str, Any]  # seconds, tokens and losses of some updates


class Entry(TypedDict):
    """Of one shape."""

    flops: float  # for each target token, the least that a rival needs
    updates: int  # of a round
    peaks: dict[str, list[Done]]
    warm: dict[str, list[Done]]
    rounds: dict[str, list[Done]]
    parameters: dict[str, int]
    twins: list[str]  # rivals that keep their memory as Regard does


class Results(TypedDict):
    machine: str
    load: float  # before it began
    entries: dict[str, Entry]


def speeds(rounds: Sequence[Done]) -> list[float]:
    return [done["tokens"] / done["seconds"] for done in rounds]


def fastest(entry: Entry, names: Iterable[str]) -> str:
    return max(names, key=lambda name: statistics.median(speeds(entry["rounds"][name])))


def best_rival(entry: Entry) -> str:
    """As it comes."""
    return fastest(entry, (name for name in entry["rounds"] if not is_ours(name) and name not in entry["twins"]))


def is_ours(name: str) -> bool:
    return name.startswith("Regard")


def peak(entry: Entry) -> float:
    return max(statistics.median(speeds(rounds)) for rounds in entry["peaks"].values())


def interval(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def ratios(entry: Entry, name: str, other: str) -> list[float]:
    """Round by round."""
    both = zip(speeds(entry["rounds"][name]), speeds(entry["rounds"][other]), strict=True)
    return [ours / theirs for ours, theirs in both]


def tell(results: Results) -> str:
    out = StringIO()
    console = Console(file=out, width=160, highlight=False, markup=False)
    console.print(
        f"{results['machine']}, load {results['load']:.2f} before. Target tokens/s: median of rounds (least to most); "
        f"ratios are of the same round.\nAll: dropout {DROPOUT}, label smoothing {SMOOTHING}, fused AdamW, "
        f"clip {CLIP}, one table of {VOCABULARY:,} words for source, target and output, the same batches of Multi30k; "
        "rivals are one process of 2 threads."
    )
    for name, entry in results["entries"].items():
        best, twin = best_rival(entry), fastest(entry, entry["twins"])
        peaks = ", ".join(f"{key} {interval(speeds(of), '.3g')}" for key, of in _giga(entry).items())
        console.print(
            f"\n{name}: {entry['updates']} updates a round, {entry['flops'] / 1e6:.1f} MFLOP a token; "
            f"peak GFLOP/s: {peaks}\n{SHAPES[name].note}\n"
        )
        table = Table(name, "tokens/s", f"to {best}", f"to {twin}", "of peak", "parameters", "loss", box=MARKDOWN)
        for who, rounds in entry["rounds"].items():
            share = statistics.median(speeds(rounds)) * entry["flops"] / peak(entry)
            first, last = entry["warm"][who][0]["losses"][0], statistics.mean(rounds[-1]["losses"])
            table.add_row(
                who,
                interval(speeds(rounds), ",.0f"),
                interval(ratios(entry, who, best), ".2f"),
                interval(ratios(entry, who, twin), ".2f"),
                f"{share:.0%}",
                f"{entry['parameters'][who] / 1e6:.2f} M",
                f"{first:.2f} to {last:.2f}",
            )
        console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _giga(entry: Entry) -> dict[str, list[Done]]:
    return {name: [{**done, "tokens": done["tokens"] / 1e9} for done in of] for name, of in entry["peaks"].items()}


def draw(results: Results, path: Path) -> None:
    import matplotlib.pyplot as plt

    entries = results["entries"]
    counts = [len(entry["rounds"]) for entry in entries.values()]
    figure, panels = plt.subplots(
        len(entries), 1, figsize=(8, 0.9 * len(entries) + 0.38 * sum(counts)), height_ratios=counts, squeeze=False
    )
    for panel, (name, entry) in zip(panels[:, 0], entries.items(), strict=True):
        best = best_rival(entry)
        found = {who: speeds(rounds) for who, rounds in entry["rounds"].items()}
        order = sorted(found, key=lambda who: statistics.median(found[who]))
        most = max(max(values) for values in found.values())
        for row, who in enumerate(order):
            middle = statistics.median(found[who])
            panel.barh(row, middle, color="#2f6f9f" if is_ours(who) else "#b9bec4", height=0.7)
            panel.plot(found[who], [row] * len(found[who]), "o", color="#222", markeredgecolor="white", markersize=4)
            ratio = statistics.median(ratios(entry, who, best))
            panel.text(
                max(middle, *found[who]) + most * 0.015, row, f"{middle:,.0f}  ({ratio:.2f}×)", va="center", fontsize=8
            )
        panel.set_yticks(range(len(order)), order, fontsize=8)
        panel.set_xlim(0, most * 1.25)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.set_title(f"{name} (1.00× is {best})", loc="left", fontsize=9)
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xlabel("training, target tokens/s; bars are medians, dots are rounds", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
