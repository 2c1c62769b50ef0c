"""Problems of pairs, by file and line."""

import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from itertools import zip_longest

import numpy as np

from regard.data.config import PairsConfig
from regard.data.sample import chunks
from regard.data.text import LONGEST, check_regular, files_of, lines, located, pairs
from regard.data.tokenizer import UNKNOWN
from regard.progress import Progress
from regard.tasks.report import Report
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.prepare import exchanged
from regard.tasks.translation.task import Translation

UNEVEN = 5  # times as many words on one side as on the other, beyond a few


def inspect(train: Sequence[PairsConfig], valid: Sequence[PairsConfig]) -> Report:
    """Look at every pair, and never stop at the first problem."""
    report = PairsReport()
    counts = [sum(report.read(config, each is train) for config in each) for each in (train, valid)]
    report.rows = {"pairs": f"{counts[0]:,} to train on, {counts[1]:,} to validate on"}
    return report


def sizes(task: Translation, recipe: TranslationRecipe, report: Report) -> dict[str, str]:
    """What the tokenizer makes of the data."""
    tokenizers, longest = task.tokenizers, recipe.data.max_length
    if recipe.data.valid and exchanged(recipe.data):
        first = recipe.data.valid[0]
        report.add("source and target seem to have changed places", str(first.source or first.pairs), 1)
    for config in recipe.data.train:
        file = str(config.source or config.pairs or config.corpus)
        for chunk in chunks(pairs(config)):
            sources = tokenizers.read([pair.source for pair in chunk])
            targets = tokenizers.target.encode([pair.target for pair in chunk])
            for pair, source, target in zip(chunk, sources, targets, strict=True):
                if max(len(source), len(target) + 1) > longest:
                    report.add(f"longer than data.max_length ({longest} tokens), left out", file, pair.line)
    sides = {"target": tokenizers.target}
    sides |= {} if recipe.data.input else {"source": tokenizers.text}
    texts = {name: [getattr(pair, name) for pair in task.held] for name in sides}
    held = {name: [i for ids in side.encode(texts[name]) for i in ids] for name, side in sides.items()}
    rates = ", ".join(f"{ids.count(UNKNOWN) / len(ids):.2%} of the {name}" for name, ids in held.items() if ids)
    return {
        "vocabulary": " and ".join(f"{size:,}" for size in dict.fromkeys(tokenizers.sizes)),
        "unknown tokens": rates or "not known without validation data",
        "left out": task.left,
    }


class PairsReport(Report):
    """Of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.trained_on = array("Q")  # digests of sources

    def read(self, config: PairsConfig, training: bool) -> int:
        """Look at every pair; how many there are."""
        config = located(config)
        names = [config.source, config.target] if config.source else [config.pairs or config.corpus] * 2
        files = [str(name) for name in names]
        scripts: list[dict[str, array[int]]] = [defaultdict(lambda: array("L")), defaultdict(lambda: array("L"))]
        whole, alone = array("Q"), array("Q")  # digests of pairs and of sources
        line = 0
        with Progress(None, "check") as progress:
            for line, (source, target) in enumerate(_leniently(config), 1):
                if source is None or target is None:
                    self.add("without a counterpart", files[source is None], line)
                    return line
                for text, seen in zip((source, target), scripts, strict=True) if config.input is None else ():
                    seen[_script(text)].append(line)
                self._pair(files, line, source, target, config.input is None)
                whole.append(_digest(f"{source}\0{target}"))
                alone.append(_digest(source))
                progress.update(line)
        for file, seen in zip(files, scripts, strict=True):
            usual = max((script for script in seen if script), key=lambda script: len(seen[script]), default="")
            for script in seen.keys() - {usual, ""}:
                for number in seen[script]:
                    self.add(f"{script.lower()} letters, where most are {usual.lower()}", file, number)
        if training:
            again = np.setdiff1d(np.arange(line), np.unique(np.array(whole), return_index=True)[1], assume_unique=True)
            self.trained_on.extend(alone)
        else:
            again = np.isin(np.array(alone), np.array(self.trained_on)).nonzero()[0]
        for number in again.tolist():
            self.add("said before" if training else "a source that is also trained on", files[0], number + 1)
        return line

    def _pair(self, files: Sequence[str], line: int, source: str, target: str, alike: bool) -> None:
        """`alike`: both are text."""
        for file, text in zip(files, (source, target), strict=True):
            problems = {"empty": not text.strip(), "not UTF-8": "\ufffd" in text, "NUL bytes": "\0" in text}
            problems["over 1 MB"] = len(text) > LONGEST
            for kind in filter(problems.get, problems):
                self.add(kind, file, line)
        words = len(source.split()), len(target.split())
        if source.strip() and source == target:
            self.add("the same on both sides", files[0], line)
        if alike and min(words) and max(words) > UNEVEN * (min(words) + 3):
            self.add(f"one side over {UNEVEN} times as long as the other", files[0], line)


def _leniently(config: PairsConfig) -> Iterator[tuple[str | None, str | None]]:
    """The pairs with whatever is wrong in them; None where one of two files has ended."""
    if config.source is None or config.target is None or config.input is not None:
        return ((pair.source, pair.target) for pair in pairs(config))
    source, target = (lines(check_regular(path), strict=False) for path in files_of(config))
    return zip_longest(source, target)


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
