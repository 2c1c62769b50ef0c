"""Text from files, a line at a time: nothing is guessed, and what is wrong is named by file and line."""

import difflib
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.data.config import PairsConfig
from regard.data.input import beside, kind_of
from regard.data.made import MADE, check_split
from regard.errors import UserError
from regard.files import cannot_read, open_hashed, open_regular

T = TypeVar("T")
LONGEST = 1 << 20  # bytes in a line; a longer one is no sentence
MARK = "\ufeff"  # byte-order mark
HOME = "REGARD_DATA"
CORPORA = {"multi30k": "multi30k/raw/{split}.{language}", "multi30k-tok": "multi30k/tok/{split}.lc.norm.tok.{language}"}
LISTS = {"g2p/train": "g2p/g014b2b.train"}  # files of pairs, a tab between them
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
BROKEN = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)  # by JSON of another shape


class Pair(NamedTuple):
    """A source, its target, the direction, and the line it came from (counted from 1)."""

    source: str
    target: str
    tag: str | None
    line: int


def lines(path: Path, *, strict: bool) -> Iterator[str]:
    """The lines of a plain or .gz file; a line ends at "\\n" only.

    Strict refuses what is not text: bytes that are no UTF-8, NUL bytes, lines over 1 MB. Otherwise undecodable bytes
    become U+FFFD and everything else passes.
    """
    try:
        with open_hashed(path) as raw_file:
            file: Any = gzip.GzipFile(fileobj=raw_file) if path.name.endswith(".gz") else raw_file
            most, start = LONGEST + 1 if strict else -1, 0
            for number, raw in enumerate(iter(partial(file.readline, most), b""), 1):
                line = _decode(raw, path, number, start) if strict else raw.decode("utf-8", "replace")
                yield (line.removeprefix(MARK) if number == 1 else line).removesuffix("\n").removesuffix("\r")
                start += len(raw)
    except UserError:
        raise
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: the gzip data are damaged ({error}); fetch or compress the file again") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise cannot_read(path, error) from error


def objects(path: Path, read: Callable[[Any], T], such: str) -> Iterator[tuple[int, T]]:
    """What `read` takes from the JSON of each line, with the line's number."""
    for number, line in enumerate(lines(path, strict=True), 1):
        try:
            content = read(json.loads(line))
        except BROKEN as error:
            why = f"{type(error).__name__}: {error}"
            raise UserError(f"{path}, line {number}: cannot be used ({why}); write an object such as {such}") from error
        yield number, content


def strings(values: Any) -> tuple[str, ...]:
    """A list of texts from JSON, or an error of those in BROKEN."""
    if not isinstance(values, list):
        raise TypeError(f"{type(values).__name__} where a list of texts should be")
    "".join(values).encode()  # raises for numbers and the like, and for half a surrogate pair
    return tuple(values)


def pairs(config: PairsConfig) -> Iterator[Pair]:
    """The pairs that a recipe names, in order; a side may be blank."""
    paths = files_of(config)
    both: Iterable[tuple[str, ...]]
    if config.input is not None and len(paths) == 1 and config.corpus is None:
        listed = pairs(replace(config, input=None))
        both = ((beside(source, paths[0]), target) for source, target, *_ in listed)
    elif not paths:
        name, split = str(config.corpus).split("/")
        both = MADE[name](split)
    elif len(paths) == 2:
        ours = lines(paths[0], strict=True)
        if config.input is not None:
            ours = (item for item, _ in kind_of(config.input.kind).items(paths[0]))
        both = _aligned(paths[0], paths[1], ours)
    elif paths[0].name.removesuffix(".gz").endswith(".jsonl"):
        such = '{"source": "a cat", "target": "eine Katze"}'
        both = (pair for _, pair in objects(paths[0], lambda it: strings([it["source"], it["target"]]), such))
    else:
        both = _columns(paths[0])
    number = 0
    for number, (source, target) in enumerate(both, 1):
        yield Pair(source, target, config.tag, number)
    if number == 0:
        raise UserError(f"{paths[0]}: the file is empty; give one with a sentence on each line")


def files_of(config: PairsConfig) -> list[Path]:
    """The files that pairs are read from, none where they are made on the spot."""
    if config.corpus in LISTS:
        return [kept(LISTS[config.corpus or ""])]
    config = located(config)
    return [Path(name) for name in (config.source, config.target, config.pairs) if name is not None]


def check_regular(path: Path) -> Path:
    """The path of a file that can be read; no pipe or device, as training reads its data more than once."""
    open_regular(path).close()
    return path


def located(config: PairsConfig) -> PairsConfig:
    """With files in the place of a corpus's name, if it is kept in files."""
    if config.corpus is None or config.corpus in LISTS or re.fullmatch(rf"({'|'.join(MADE)})/[^/]+", config.corpus):
        return config
    parts = re.fullmatch(r"([^/]+)/([^/-]+)-([^/-]+)/([^/]+)", config.corpus)
    if parts is None:
        raise UserError(f"corpus {config.corpus!r}; write it like multi30k-tok/en-de/train or daily/train")
    name, *languages, split = parts.groups()
    if name not in CORPORA:
        known = [*CORPORA, *MADE, *(file.split("/")[0] for file in LISTS)]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0)
        raise UserError(f"no corpus is called {name!r}; did you mean {near[0]}? Known: {', '.join(known)}")
    check_split(name, split)
    source, target = (str(kept(CORPORA[name].format(split=SPLITS[split], language=each))) for each in languages)
    return PairsConfig(source=source, target=target, tag=config.tag)


def kept(name: str) -> Path:
    """A file below the folder REGARD_DATA."""
    home, folder = os.environ.get(HOME), name.split("/")[0]
    if not home:
        raise UserError(f"{folder} lies below the folder {HOME}, which is not set; try export {HOME}=/path/to/data")
    if not (path := Path(home, name)).is_file():
        raise UserError(f"{path}: no such file; set {HOME} to the folder that holds {folder}/")
    return path


def _decode(raw: bytes, path: Path, number: int, start: int) -> str:
    """A line of text, which begins at the byte `start` of its file."""
    if b"\0" in raw:
        remedy = "give a text file, and convert UTF-16 with: iconv -f UTF-16 -t UTF-8"
        raise UserError(f"{path}, line {number}: NUL bytes, so this is no UTF-8 text; {remedy}")
    if len(raw) > LONGEST and not raw.endswith(b"\n"):
        raise UserError(f"{path}, line {number}: longer than {LONGEST} bytes; put a sentence on each line")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = f"byte {start + error.start} of the file (0x{raw[error.start]:02x}) is no UTF-8"
        remedy = f"mend the line, or convert the file, as in: iconv -f LATIN1 -t UTF-8 {path.name}"
        raise UserError(f"{path}, line {number}: {wrong}; {remedy}") from error


def _aligned(source: Path, target: Path, ours: Iterator[str]) -> Iterator[tuple[str, str]]:
    theirs = lines(target, strict=True)
    for number, (left, right) in enumerate(zip_longest(ours, theirs)):
        if left is None or right is None:
            longer = number + 1 + sum(1 for _ in (theirs if left is None else ours))
            first, second = (number, longer) if left is None else (longer, number)
            remedy = "line n of one must translate line n of the other, so find the missing lines"
            raise UserError(f"{source} has {first} lines and {target} has {second}; {remedy}")
        yield left, right


def _columns(path: Path) -> Iterator[tuple[str, ...]]:
    for number, line in enumerate(lines(path, strict=True), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(f"{path}, line {number}: columns: {len(columns)}, not 2; write source, one tab, target")
        yield tuple(columns)
