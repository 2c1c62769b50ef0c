"""From what was measured to a table and a picture."""

from __future__ import annotations

import statistics
from io import StringIO
from pathlib import Path
from typing import TypedDict

from bench.training.report import interval
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from regard.metrics.resample import paired_bootstrap
from regard.metrics.text import METRICS

YARDSTICK = "CTranslate2 int8"


class Case(TypedDict):
    """One shape, one search, many sentences at once or one by one."""

    shape: str
    beam: int
    single: bool
    counts: dict[str, int]  # sentences of a turn
    seconds: dict[str, list[list[float]]]  # of each turn, by texts where they came one by one
    quality: dict[str, tuple[list[str], list[str]]]  # references and outputs


class Results(TypedDict):
    machine: str
    load: float
    cases: list[Case]


def speeds(case: Case, name: str) -> list[float]:
    return [case["counts"][name] / sum(turn) for turn in case["seconds"][name]]


def ratios(case: Case, name: str, other: str) -> list[float]:
    return [a / b for a, b in zip(speeds(case, name), speeds(case, other), strict=True)]


def titled(case: Case) -> str:
    how = "one sentence at a time" if case["single"] else "batches"
    search = "greedy" if case["beam"] == 1 else f"beam {case['beam']}"
    return f"{case['shape']}, {how}, {search}"


def tell(results: Results) -> str:
    out = StringIO()
    console = Console(file=out, width=170, highlight=False, markup=False)
    console.print(
        f"{results['machine']}, load {results['load']:.2f} before. Text to text, sentences/s: median of rounds (least "
        "to most); ratios are of the same round. BLEU on the tokenised text; p by paired bootstrap against "
        "CTranslate2 int8."
    )
    for case in results["cases"]:
        console.print(f"\n{titled(case)}\n")
        names = (
            "",
            "sentences/s",
            "to CTranslate2 int8",
            *(("p50, ms", "p99, ms") if case["single"] else ("BLEU", "p")),
        )
        table = Table(*names, box=MARKDOWN)
        for name in case["counts"]:
            extra = _latency(case, name) if case["single"] else _quality(case, name)
            ratio = interval(ratios(case, name, YARDSTICK), ".2f")
            table.add_row(name, interval(speeds(case, name), ",.0f"), ratio, *extra)
        console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _latency(case: Case, name: str) -> list[str]:
    each = sorted(1000 * seconds for turn in case["seconds"][name] for seconds in turn)
    return [f"{each[len(each) // 2]:.2f}", f"{each[min(len(each) - 1, len(each) * 99 // 100)]:.2f}"]


def _quality(case: Case, name: str) -> list[str]:
    references, outputs = case["quality"][name]
    score = METRICS["bleu_tokenized"][0](outputs, references).value
    theirs = case["quality"][YARDSTICK][1]
    p = paired_bootstrap(theirs, outputs, references, "bleu_tokenized").p_value
    return [f"{score:.2f} of {len(outputs):,}", f"{p:.2f}"]


def draw(results: Results, path: Path) -> None:
    import matplotlib.pyplot as plt

    cases = results["cases"]
    figure, panels = plt.subplots((len(cases) + 1) // 2, 2, figsize=(11, 1.25 * len(cases)), squeeze=False)
    for panel, case in zip(panels.flat, cases, strict=False):
        names = sorted(case["counts"], key=lambda name: statistics.median(speeds(case, name)))
        most = max(max(speeds(case, name)) for name in names)
        for row, name in enumerate(names):
            values = speeds(case, name)
            middle, ratio = statistics.median(values), statistics.median(ratios(case, name, YARDSTICK))
            panel.barh(row, middle, color="#2f6f9f" if name.startswith("Regard") else "#b9bec4", height=0.7)
            panel.plot(values, [row] * len(values), "o", color="#222", markeredgecolor="white", markersize=3.5)
            panel.text(max(values) + most * 0.015, row, f"{middle:,.0f}  ({ratio:.2f}×)", va="center", fontsize=7)
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.set_xlim(0, most * 1.3)
        panel.set_title(titled(case), loc="left", fontsize=8)
        panel.tick_params(axis="x", labelsize=6)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("decoding, sentences/s (1.00× is CTranslate2 int8); bars are medians, dots are rounds", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)
