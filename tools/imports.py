"""Draws which room of src/regard imports which: docs/imports.svg.

python tools/imports.py
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def edges() -> Counter[tuple[str, str]]:
    """Import lines from room to room; what all use is one room."""
    base = set(levels()[0])
    counts = Counter[tuple[str, str]]()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
                ends = [("base" if name in base else name) for name in (room(path), str(node.module).split(".")[1])]
                counts[ends[0], ends[1]] += ends[0] != ends[1]
    return +counts


def levels() -> dict[int, list[str]]:
    """As tests/test_architecture.py has them."""
    text = (ROOT / "tests" / "test_architecture.py").read_text("utf-8")
    tree = next(n for n in ast.parse(text).body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LEVELS")
    return {level: list(rooms) for level, rooms in ast.literal_eval(tree.value).items()}


def main() -> None:
    rows = {level: (["base"] if level == 0 else rooms) for level, rooms in levels().items()}
    places = {name: ((i + 0.5) / len(names), level) for level, names in rows.items() for i, name in enumerate(names)}
    figure = Figure(figsize=(9, 8))
    axes = figure.add_subplot()
    axes.axis("off")
    counts = edges()
    for (start, end), count in counts.items():
        if {"base", "__init__", "__main__"} & {start, end}:
            continue
        style = {"arrowstyle": "-|>", "color": "0.55", "lw": 0.4 + count / 25, "shrinkA": 12, "shrinkB": 12}
        axes.annotate("", places[end], places[start], arrowprops=style)
    for name, place in places.items():
        label = "shapes, recipe, rng, errors, bounds, files, progress: used by all" if name == "base" else name
        axes.text(*place, label, ha="center", va="center", bbox={"boxstyle": "round", "fc": "white", "ec": "0.3"})
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, max(rows) + 0.5)
    out = ROOT / "docs" / "imports.svg"
    figure.savefig(out, metadata={"Date": None}, bbox_inches="tight")
    out.write_text(re.sub(r"[ \t]+\n", "\n", out.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
