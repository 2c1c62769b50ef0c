"""The README.md of an exported folder: what it is, and the lines that run it by the folder's files alone."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from regard import __version__
from regard.data.tokenizer import MASK
from regard.files import write
from regard.tasks.folder import Loaded


def write_readme(folder: Path, kind: str, loaded: Loaded, name: str, texts: list[str], longest: int) -> None:
    """The page of usage.md with the code of this format and task, and what to know of both."""
    assert loaded.tokenizers is not None
    page, *parts = re.split(
        r"^# ([a-z][\w ]*)\n", files(__package__).joinpath("usage.md").read_text("utf-8"), flags=re.M
    )
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    tags = [f"`<2{tag}>`" for tag in source.tags if tag != MASK]
    values = {
        "name": name,
        "model": loaded.config.kind,
        "task": loaded.task,
        "version": __version__,
        "texts": json.dumps(texts, ensure_ascii=False),
        "longest": str(longest),
        "source": "" if source is target else "source/",
        "target": "" if source is target else "target/",
        "pooled": "states[0]" if getattr(loaded.config, "pooling", "") == "first" else "states.mean(0)",
        "tags": ", ".join(tags),
    }
    code = sections.get(f"{kind} {loaded.task}", sections["native code"])
    notes = sections[kind] + (sections["tags"] if tags else "")
    if "words" in source.content() and kind != "native":
        notes += sections["without a tokenizer"]
    filled = {part: Template(text).substitute(values).strip() for part, text in (("code", code), ("notes", notes))}
    write(folder / "README.md", Template(page).substitute(values, **filled).encode())
