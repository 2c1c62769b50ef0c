"""What every comparison leaves: its numbers, a table and a picture, and the machine that they are of."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any


def machine() -> str:
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{len(cpus)} x {cpus[0].split(':')[1].strip()}" if cpus else platform.processor()


def leave(
    path: Path, results: Any, tell: Callable[[Any], str], draw: Callable[[Any, Path], None], seconds: float
) -> None:
    """At path.json, path.md and path.svg, and the table on the screen."""
    path.with_suffix(".json").write_text(json.dumps(results, indent=1), "utf-8")
    text = tell(results)
    path.with_suffix(".md").write_text(text, "utf-8")
    print(text)
    draw(results, path.with_suffix(".svg"))
    print(f"{seconds:.0f} s; also in {path.parent}: {path.name}.json, {path.name}.md, {path.name}.svg")
