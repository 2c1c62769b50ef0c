"""`regard check`: every problem of the data, by file and line, before hours go into them."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.cli.processes import plan_for
from regard.cli.starter import Asked
from regard.cli.tasks import reading_for, save_words, text_task_for, trainer_for, translation_for
from regard.data.config import PairsConfig
from regard.data.text import LONGEST, count_lines, lines, located, pairs
from regard.data.tokenizer import UNKNOWN
from regard.progress import Progress, duration
from regard.tasks.prepare import chunks, exchanged
from regard.train.config import ReadRecipe, Recipe, RunningRecipe
from regard.train.plan import Plan

Digests = NDArray[np.uint64]
SHOWN = 8  # lines of a problem that are told on a terminal
UNEVEN = 5  # times as many words on one side as on the other, beyond a few
FATAL = ("not UTF-8", "NUL bytes", "over 1 MB", "without a counterpart")  # `train` refuses these and minds no others


class Report:
    """Problems by kind: the file and line of each."""

    def __init__(self) -> None:
        self.problems: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.trained_on = array("Q")  # digests of sources

    def add(self, kind: str, file: str, line: int) -> None:
        self.problems[kind].append((file, line))

    @property
    def fatal(self) -> bool:
        return any(kind in FATAL for kind in self.problems)

    def text(self) -> str:
        """A line for each kind and file."""
        told = []
        for kind, places in self.problems.items():
            for file in dict.fromkeys(file for file, _ in places):
                numbers = [line for name, line in places if name == file]
                shown = ", ".join(map(str, numbers[:SHOWN]))
                rest = f" and {len(numbers) - SHOWN:,} more (all by --json)" if len(numbers) > SHOWN else ""
                told.append(f"{kind}: {file}, line {shown}{rest}")
        return "\n".join(told)

    def read(self, config: PairsConfig, training: bool) -> int:
        """Look at every pair; how many there are."""
        config = located(config)
        names = [config.source, config.target] if config.source else [config.pairs or config.corpus] * 2
        files = [str(name) for name in names]
        scripts: list[dict[str, array[int]]] = [defaultdict(lambda: array("L")), defaultdict(lambda: array("L"))]
        whole, alone = array("Q"), array("Q")  # digests of pairs and of sources
        line = 0
        with Progress(count_lines(config) or None, "check") as progress:
            for line, (source, target) in enumerate(_leniently(config), 1):
                if source is None or target is None:
                    self.add("without a counterpart", files[source is None], line)
                    return line
                for file, text, seen in zip(files, (source, target), scripts, strict=True):
                    self._side(file, line, text)
                    seen[_script(text)].append(line)
                self._pair(files[0], line, source, target)
                whole.append(_digest(f"{source}\0{target}"))
                alone.append(_digest(source))
                progress.update(line)
        for file, seen in zip(files, scripts, strict=True):
            usual = max((script for script in seen if script), key=lambda script: len(seen[script]), default="")
            for script in seen.keys() - {usual, ""}:
                for number in seen[script]:
                    self.add(f"{script.lower()} letters, where most are {usual.lower()}", file, number)
        self._again(files[0], np.array(whole), np.array(alone), training)
        return line

    def _again(self, file: str, whole: Digests, alone: Digests, training: bool) -> None:
        if training:
            _, first = np.unique(whole, return_index=True)
            again = np.setdiff1d(np.arange(len(whole)), first, assume_unique=True)
            self.trained_on.extend(alone.tolist())
        else:
            again = np.isin(alone, np.array(self.trained_on)).nonzero()[0]
        for number in again.tolist():
            self.add("said before" if training else "a source that is also trained on", file, number + 1)

    def _side(self, file: str, line: int, text: str) -> None:
        if not text.strip():
            self.add("empty", file, line)
        if "\ufffd" in text:
            self.add("not UTF-8", file, line)
        if "\0" in text:
            self.add("NUL bytes", file, line)
        if len(text) > LONGEST:
            self.add("over 1 MB", file, line)

    def _pair(self, file: str, line: int, source: str, target: str) -> None:
        words = len(source.split()), len(target.split())
        if source.strip() and source == target:
            self.add("the same on both sides", file, line)
        if min(words) and max(words) > UNEVEN * (min(words) + 3):
            self.add(f"one side over {UNEVEN} times as long as the other", file, line)


def _leniently(config: PairsConfig) -> Iterator[tuple[str | None, str | None]]:
    """The pairs with whatever is wrong in them; None where one of two files has ended."""
    if config.source is None or config.target is None:
        return ((pair.source, pair.target) for pair in pairs(config))
    return zip_longest(lines(Path(config.source), strict=False), lines(Path(config.target), strict=False))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def _script(text: str) -> str:
    """The script of most letters, such as LATIN or CYRILLIC; "" without letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else ""
    found = Counter(_script_of(letter) for letter in text if letter.isalpha())
    return found.most_common(1)[0][0] if found else ""


@cache
def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "UNKNOWN").split()[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name


def check(asked: Asked, as_json: bool) -> None:
    recipe = None if asked.source else asked.recipe()[0]
    if recipe is None or isinstance(recipe, Recipe):
        _check_pairs(asked, as_json)
        return
    with tempfile.TemporaryDirectory() as folder:  # of running text, reading is all that can go wrong
        save_words(recipe, Path(folder), None)
        sizes = _label_sizes if isinstance(recipe, ReadRecipe) else _text_sizes
        told = sizes(recipe, Path(folder))  # type: ignore[arg-type]
    print(json.dumps({**told, "problems": {}}) if as_json else f"no problems found\n{_listed(told)}")


def _listed(told: dict[str, str]) -> str:
    return "\n".join(f"{name:15} {value}" for name, value in told.items())


def _check_pairs(asked: Asked, as_json: bool) -> None:
    report = Report()
    trained, valid = asked.corpora()
    counts = [sum(report.read(config, True) for config in trained), sum(report.read(c, False) for c in valid)]
    for config in valid[:1]:
        if not report.fatal and exchanged(asked.translation().data):
            report.add("source and target seem to have changed places", str(config.source or config.pairs), 1)
    told: dict[str, str] = {"pairs": f"{counts[0]:,} to train on, {counts[1]:,} to validate on"}
    if not report.fatal:
        with tempfile.TemporaryDirectory() as folder:
            told |= _sizes(asked.translation(), Path(folder), report)
    if as_json:
        print(json.dumps({**told, "problems": report.problems}, ensure_ascii=False))
    else:
        print(report.text() or "no problems found")
        print(_listed(told))
    sys.exit(2 if report.fatal else 0)


def _sizes(recipe: Recipe, folder: Path, report: Report) -> dict[str, str]:
    """What the tokenizer makes of the data, and what training on them will take."""
    task, left = translation_for(recipe, folder)
    tokenizers = task.tokenizers
    unknown, tokens, longest = Counter[str](), Counter[str](), recipe.data.max_length
    for config in recipe.data.train:
        file = str(config.source or config.pairs or config.corpus)
        for chunk in chunks(pairs(config)):
            sources = tokenizers.source.encode([pair.source for pair in chunk])
            targets = tokenizers.target.encode([pair.target for pair in chunk])
            for pair, *both in zip(chunk, sources, targets, strict=True):
                if max(map(len, both)) >= longest:
                    report.add(f"longer than data.max_length ({longest} tokens), left out", file, pair.line)
    if task.held is not None:
        sides = {"source": task.held.sources, "target": task.held.targets}
        for name, side in sides.items():
            tokens[name] = sum(map(len, side))
            unknown[name] = sum(ids.count(UNKNOWN) for ids in map(list, side))
    rates = ", ".join(f"{unknown[name] / tokens[name]:.2%} of the {name}" for name in tokens if tokens[name])
    return {
        "vocabulary": " and ".join(f"{size:,}" for size in dict.fromkeys(tokenizers.sizes)),
        "unknown tokens": rates or "not known without validation data",
        "left out": str(left),
        **_takes(plan_for(trainer_for(recipe, folder, task))),
    }


def _text_sizes(recipe: RunningRecipe, folder: Path) -> dict[str, str]:
    task = text_task_for(recipe, folder)
    held = None if task.held is None else task.held.ids
    unknown = "not known without validation data" if held is None else f"{float((held == UNKNOWN).mean()):.2%}"
    return {
        "tokens": f"{len(task.ids):,} to train on, {0 if held is None else len(held):,} to validate on",
        "vocabulary": f"{task.sizes[0]:,}",
        "unknown tokens": unknown,
        **_takes(plan_for(trainer_for(recipe, folder, task))),
    }


def _label_sizes(recipe: ReadRecipe, folder: Path) -> dict[str, str]:
    task = reading_for(recipe, folder)
    config = task.layout.config
    told = {
        "examples": f"{len(task.units):,} to train on, {len(task.held):,} to validate on",
        "cut": f"{task.layout.cut:,} longer than data.max_length ({recipe.data.max_length} tokens)",
    }
    if recipe.task == "classification":
        counts = Counter(config.labels[unit[0].wanted] for unit in task.units)
        told["labels"] = ", ".join(f"{label}: {counts[label]:,}" for label in config.labels)
    return {**told, **_takes(plan_for(trainer_for(recipe, folder, task)))}


def _takes(plan: Plan) -> dict[str, str]:
    """What training takes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform != "darwin" else 30))
    return {
        "parameters": f"{plan.parameters:,}",
        "updates": f"{plan.steps:,}",
        "time": f"about {duration(plan.seconds)}",
        "memory": f"about {peak:.1f} GiB; the largest batch fits",
    }
