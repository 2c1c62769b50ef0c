"""The README.md of an exported folder: what it is, and the lines that run it by the folder's files alone."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from regard import __version__
from regard.files import write
from regard.tasks.folder import Loaded


def write_readme(folder: Path, kind: str, loaded: Loaded, name: str, texts: list[str], longest: int = 0) -> None:
    """The page of usage.md with the code of this format and task, and what to know of both."""
    usage = files(__package__).joinpath("usage.md").read_text("utf-8")
    page, *parts = re.split(r"^# ([a-z][\w ]*)\n", usage, flags=re.MULTILINE)
    sections, source = dict(zip(parts[::2], parts[1::2], strict=True)), loaded.words.source
    sides = {side: "" if source is loaded.words.target else f"{side}/" for side in ("source", "target")}
    values = {"name": name, "model": loaded.config.kind, "task": loaded.task, "version": __version__, **sides}
    values |= {"texts": json.dumps(texts, ensure_ascii=False), "longest": str(longest)}
    values["pooled"] = "states[0]" if getattr(loaded.config, "pooling", "") == "first" else "states.mean(0)"
    values["tags"] = ", ".join(f"`<2{tag}>`" for tag in source.tags)
    asked = f"{kind} {loaded.task}" if f"{kind} {loaded.task}" in sections else "native code"
    more = {"tags": source.tags and loaded.spec.form == "source", "without a tokenizer": "words" in source.content()}
    notes = sections[kind] + "".join(sections[name] for name, is_so in more.items() if is_so and asked != "native code")
    filled = {
        part: Template(text).substitute(values).strip() for part, text in (("code", sections[asked]), ("notes", notes))
    }
    write(folder / "README.md", Template(page).substitute(values, **filled).encode())
