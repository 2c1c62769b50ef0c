"""`regard doctor`: what this machine has, what is missing, and how to get it."""

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
    low_memory = "lower train.batch_tokens" if memory < LOW_MEMORY else ""
    low_disk = "make room, or --out elsewhere" if free < LOW_DISK else ""
    no_compiler = "" if compiler() else "install g++: decoding is fast by it"
    data = os.environ.get("REGARD_DATA")
    no_data = "" if data is None or Path(data).is_dir() else "is no folder; mend or unset it"
    found = [
        Finding("regard", version("regard")),
        Finding("python", f"{platform.python_version()} at {sys.prefix}"),
        Finding("machine", f"{platform.system()} {platform.machine()}, {cores()} cores"),
        Finding("memory", f"{memory:.1f} GiB", low_memory),
        Finding("disk here", f"{free:.1f} GiB free", low_disk),
        Finding("compiler", compiler() or "none", no_compiler),
        Finding("REGARD_DATA", "not set (needed for corpora by name only)" if data is None else data, no_data),
    ]
    # What the extras bring; without `train` little can be done, the others are for who wants them.
    for requirement in requires("regard") or []:
        match = re.fullmatch(r"([\w-]+)\W.*extra == ['\"](\w+)['\"]", requirement)
        if match is None or match[2] == "all":
            continue
        name, how = match[1], f"pip install 'regard[{match[2]}]'"
        try:
            found.append(Finding(name, version(name)))
        except PackageNotFoundError:
            needed = match[2] == "train"
            found.append(Finding(name, "missing", how) if needed else Finding(name, f"not installed ({how})"))
    return found
