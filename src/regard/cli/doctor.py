"""`regard doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from regard.engine.build import compiler
from regard.engine.engine import cores

GIGA = 1 << 30
LOW_DISK, LOW_MEMORY = 2, 2  # GiB


@dataclass(frozen=True)
class Finding:
    name: str
    value: str
    advice: str = ""


def doctor(as_json: bool) -> None:
    found = findings()
    if as_json:
        print(json.dumps([asdict(finding) for finding in found], ensure_ascii=False))
        return
    for finding in found:
        mark = "!" if finding.advice else " "
        print(f"{mark} {finding.name:13} {finding.value}" + (f"; {finding.advice}" if finding.advice else ""))


def findings() -> list[Finding]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGA
    free = shutil.disk_usage(Path.cwd()).free / GIGA
    data = os.environ.get("REGARD_DATA")
    return [
        Finding("regard", version("regard")),
        Finding("python", f"{platform.python_version()} at {sys.prefix}"),
        Finding("machine", f"{platform.system()} {platform.machine()}, {cores()} cores"),
        Finding("memory", f"{memory:.1f} GiB", _low(memory, LOW_MEMORY, "lower train.batch_tokens")),
        Finding("disk here", f"{free:.1f} GiB free", _low(free, LOW_DISK, "make room, or --out elsewhere")),
        Finding("compiler", compiler() or "none", "" if compiler() else "install g++: decoding is fast by it"),
        _data(data),
        *_packages(),
    ]


def _low(has: float, needs: float, advice: str) -> str:
    return advice if has < needs else ""


def _data(folder: str | None) -> Finding:
    if folder is None:
        return Finding("REGARD_DATA", "not set (needed for corpora by name only)")
    return Finding("REGARD_DATA", folder, "" if Path(folder).is_dir() else "is no folder; mend or unset it")


def _packages() -> list[Finding]:
    """What the extras bring; without `train` little can be done, the others are for who wants them."""
    found = []
    for requirement in requires("regard") or []:
        if match := re.fullmatch(r"([\w-]+)\W.*extra == ['\"](\w+)['\"]", requirement):
            name, extra = match.groups()
            if extra == "all":
                continue
            try:
                found.append(Finding(name, version(name)))
            except PackageNotFoundError:
                how = f"pip install 'regard[{extra}]'"
                needed = extra == "train"
                found.append(Finding(name, "missing" if needed else f"not installed ({how})", how if needed else ""))
    return found
