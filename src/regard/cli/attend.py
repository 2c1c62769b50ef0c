"""`regard attend --heads` and `--worst`: what all heads of a translator are good for, and what it covered worst."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from regard.data.text import lines
from regard.errors import UserError
from regard.look.look import REMARK
from regard.metrics.alignment import Gold, parse
from regard.progress import Progress, say
from regard.tasks.translation.runtime import Translator

File = Path | None
Sentences = tuple[list[str], list[Sequence[int]], list[Gold] | None]  # texts, outputs, and links of their words


def attend_file(model: Any, source: Path, target: File, gold: File, worst: int | None, as_json: bool) -> None:
    """All heads over the lines of a file, or its sentences that were covered worst."""
    from regard.tasks.translation import heads as summary

    if model.loaded.spec.form != "source":
        raise UserError("--heads and --worst are for translators; give a text to look at instead")
    texts, outputs, links = _read(model, source, target, gold)
    if worst is None:
        with Progress(len(summary.places(model)), "heads") as bar:
            rows = summary.heads(model, texts, outputs, bar.update, links)
        names = ["site", "head", "entropy, bits", "largest weight", "lost without", "alignment error"]
        _tell(names, rows, as_json)
    else:
        with Progress(len(texts), "sentences") as bar:
            found = summary.worst(model, texts, outputs, bar.update)[:worst]
        _tell(["text", "said", "coverage error", "least looked at"], found, as_json)
    say(REMARK)


def _read(model: Translator, source: Path, target: File, gold: File) -> Sentences:
    """Lines that are not blank, what is said to them, by the model itself or in a file, and gold links."""
    if gold is not None and target is None:
        raise UserError("--gold links the words of two files; give the second as --targets FILE")
    texts = [text.strip() for text in lines(source, strict=False)]
    given = None if target is None else [text.strip() for text in lines(target, strict=False)]
    links = None if gold is None else [parse(line, f"{gold}:{i}") for i, line in enumerate(lines(gold, strict=True), 1)]
    for path, others in ((target, given), (gold, links)):
        if others is not None and len(others) != len(texts):
            raise UserError(f"{source} has {len(texts)} lines and {path} {len(others)}; give a line for each")
    kept = [i for i, text in enumerate(texts) if text and (given is None or given[i])]
    if not kept:
        raise UserError(f"{source}: holds no line to look at")
    texts = [texts[i] for i in kept]
    if given is not None:
        outputs = model.spelled([given[i] for i in kept])
        return texts, list(outputs), None if links is None else [links[i] for i in kept]
    with Progress(len(texts), "translating") as bar:
        return texts, [best[0].tokens for best in model.hypotheses(texts, bar.update)], None


def _tell(names: list[str], rows: Sequence[Any], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(asdict(row), ensure_ascii=False))
        return
    table = Table(*(Column(name, no_wrap=name == "site") for name in names), box=SIMPLE)
    for row in rows:
        values = asdict(row).values()
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else "" if v is None else str(v) for v in values))
    Console(highlight=False).print(table)
