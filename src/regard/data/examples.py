"""Labelled examples, from files of one's own and from known corpora; what is wrong is named by file and line."""

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from regard.data.config import ExamplesConfig, LabelledDataConfig
from regard.data.input import beside, kind_of
from regard.data.text import BROKEN, LONGEST, kept, lines, objects, strings
from regard.errors import UserError
from regard.files import read_regular
from regard.rng import Key

LARGEST = 256 << 20  # bytes of a .json, which is read whole
TEXTS = (  # names of columns, two texts before one
    ("first", "second"), ("sentence1", "sentence2"), ("question1", "question2"), ("question", "sentence"),
    ("premise", "hypothesis"), ("#1 string", "#2 string"), ("text",), ("sentence",),
)  # fmt: skip
COLUMNS = "label", "score", "gold_label", "is_duplicate", "quality"  # the last three of MNLI, QQP, MRPC
LINE_OF_TITLES = re.compile(r"(?:[^\W\d]\w*(?: \w+)?\t)*[^\W\d][\w-]*")  # a word or two, as columns are called
TITLE = "(.*[_-])?(text|review|comment|title|tweet|class|category|target|sentiment|topic|type|rating|grade|y)"
COLA = ["source", "label", "star", "sentence"]  # what its files name nowhere
RAGGED = ("glue/QQP/", "glue/MNLI/")  # the official files have lines that break off; these are skipped
NAMED = "call the columns text and label, or first, second and label, in a line of names at the top"
_GLUE = ("CoLA", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B")
CORPORA = {f"glue/{name}/{split}": f"glue/{name}/{split}.tsv" for name in _GLUE for split in ("train", "dev")}
CORPORA |= {f"glue/MNLI/{name}": f"glue/MNLI/{name}.tsv" for name in ("dev_matched", "dev_mismatched")}
CORPORA["glue/MNLI/dev"] = "glue/MNLI/dev_matched.tsv"
CORPORA |= {f"squad/{split}": "squad/dev-v1.1.json" for split in ("train", "test", "all")}


class Example(NamedTuple):
    """What is read, and the answer that is wanted.

    Texts: a sentence or two; of choice the context and then the choices; of tagging the words of a sentence; of spans
    document and question. Answer: a label; a float; the number of the choice, from 0; a tuple of tags; a tuple of
    (place in the document, text). None in examples without labels. Line: from 1; of spans the number of the question.
    """

    texts: tuple[str, ...]
    answer: Any
    line: int


@dataclass(frozen=True, kw_only=True)
class Format:
    """How examples of one kind are written in files."""

    name: str
    endings: tuple[str, ...]
    such: str  # one example, in messages
    read_object: Callable[[dict[str, Any], bool], tuple[tuple[str, ...], Any]]
    """Texts and answer of a line of .jsonl; without labels, no answer."""
    read_file: Callable[[Path, str, bool], Iterator[Example]]
    """The examples of any other file, which may be of a corpus of this name."""
    num_shared: int | None = None
    """Texts by which examples belong together, as questions about a document do; None: all of them."""

    def group(self, example: Example) -> tuple[str, ...]:
        return example.texts[: self.num_shared]


def examples(config: ExamplesConfig, form: Format, *, labelled: bool = True) -> Iterator[Example]:
    """The examples that a recipe names, in order; without labels, answers are neither needed nor read.

    squad/test is every sixth article of SQuAD v1.1's development part, squad/train the other forty.
    """
    path, example = place_of(config, form), None
    other = None if config.input is None else kind_of(config.input.kind)
    if other is not None and path.name.endswith(other.many):
        rows: Iterator[Example] = _held(path, form, other.items(path), labelled)
    elif path.name.removesuffix(".gz").endswith(".jsonl"):
        read = objects(path, lambda value: form.read_object(value, labelled), form.such)
        rows = (Example(*content, number) for number, content in read)
    else:
        rows = form.read_file(path, config.corpus or "", labelled)
    for example in rows:
        yield example if other is None else example._replace(texts=tuple(beside(each, path) for each in example.texts))
    if example is None:
        raise UserError(f"{path}: there is no example in it; give a file with at least one")


def _held(path: Path, form: Format, items: Iterable[tuple[str, Any]], labelled: bool) -> Iterator[Example]:
    """The examples of a file that is no list of them, but holds them."""
    for number, (item, label) in enumerate(items, 1):
        try:
            yield Example(*form.read_object({"text": item, "label": label}, labelled), number)
        except ValueError as error:
            raise UserError(f"{path}, item {number}: {error}") from error


def read_examples(configs: Sequence[ExamplesConfig], form: Format, *, labelled: bool = True) -> list[Example]:
    """All of them, one source after the other."""
    return list(chain.from_iterable(examples(config, form, labelled=labelled) for config in configs))


def split(config: LabelledDataConfig, form: Format) -> tuple[list[Example], list[Example]]:
    """The examples to learn from and those to validate on."""
    train, valid = read_examples(config.train, form), read_examples(config.valid, form)
    if config.hold_out:
        groups = ["\t".join(form.group(example)) for example in train]
        held = [crc32(group.encode()) < config.hold_out * (1 << 32) for group in groups]
        if len({*held}) < 2:
            which = "all" if held[0] else "none"
            raise UserError(f"hold_out {config.hold_out:g} of so few examples is {which}; change it, or give valid")
        valid = [example for example, is_held in zip(train, held, strict=True) if is_held]
        train = [example for example, is_held in zip(train, held, strict=True) if not is_held]
    if config.limit is not None:
        drawn = Key(0, ("limit",)).generator().permutation(len(train))[: config.limit]
        train = [train[i] for i in sorted(drawn)]
    return train, valid


def unlabelled(corpus: str) -> Iterator[str]:
    """The texts of a labelled corpus alone; documents, of which several questions are asked, once."""
    form = _format_of(corpus)
    for texts, _ in groupby(examples(ExamplesConfig(corpus=corpus), form, labelled=False), key=form.group):
        yield from texts


def _format_of(corpus: str) -> Format:
    return QUESTIONS if corpus.startswith("squad/") else NUMBERS if "/STS-B/" in corpus else LABELS


def place_of(config: ExamplesConfig, form: Format) -> Path:
    """The file of examples."""
    if config.file is not None:
        endings = (*form.endings, *(kind_of(config.input.kind).many if config.input else ()))
        if not config.file.endswith(endings):
            raise UserError(f"{config.file}: {form.name} are read from files that end in {', '.join(endings)}")
        return Path(config.file)
    name = config.corpus or ""
    if name not in CORPORA:
        near = difflib.get_close_matches(name, CORPORA, n=1, cutoff=0)
        raise UserError(f"no labelled corpus is called {name!r}; did you mean {near[0]}? Known: {', '.join(CORPORA)}")
    own = _format_of(name)
    if form is not own:
        raise UserError(f"{name} has {own.name}, and {form.name} are needed; change the task or the corpus")
    try:
        return kept(CORPORA[name])
    except UserError as error:
        whole = "SQuAD v1.1" if own is QUESTIONS else "GLUE, the benchmark of language understanding"
        raise UserError(f"{error}. The file is part of {whole}, and is fetched by hand") from error


def _table(path: Path, corpus: str, labelled: bool, *, read: Callable[[object], Any]) -> Iterator[Example]:
    """Columns between tabs, in which quotes are plain characters."""
    columns: list[int] = []  # of the texts and, last, of the label
    header, ragged = COLA if corpus.startswith("glue/CoLA/") else None, corpus.startswith(RAGGED)
    width, seen, title = 0, Counter[str](), ""
    for number, line in enumerate(lines(path, strict=True), 1):
        cells = line.split("\t")
        if not columns:
            names, width = header or [cell.strip().lower() for cell in cells], len(header or cells)
            titled = not {*names}.isdisjoint([*chain.from_iterable(TEXTS), *COLUMNS])
            columns = _columns(names, titled, path, labelled)
            if titled and header is None:
                continue
            title = line.strip() if header is None and LINE_OF_TITLES.fullmatch(line.strip()) else ""
        if ragged and len(cells) < width:
            continue
        if len(cells) != width:
            wrong = f"columns: {len(cells)}, not {width} as before"
            raise UserError(f"{path}, line {number}: {wrong}; keep tabs out of texts")
        texts = [cells[i].strip() for i in columns]
        seen[texts[-1]] += 1
        try:
            answer = read(texts.pop()) if labelled else None
        except ValueError as error:
            cure = NAMED if title and number == 1 else "mend the label or leave the line out"
            raise UserError(f"{path}, line {number}: {error}; {cure}") from error
        yield Example(tuple(texts), answer, number)
    # A label that no other line has may be a class of one example, unless columns are called so, or others are common.
    name = title.rpartition("\t")[2]
    others = [count for label, count in seen.items() if label != name]
    common = labelled and " " not in title and len(others) > 1 and min(others) > 1
    if title and seen[name] == 1 and others and (common or re.fullmatch(TITLE, name.lower())):
        raise UserError(f"{path}, line 1: {name!r:.60} is on no other line, and looks like a column's name; {NAMED}")


def _columns(names: list[str], titled: bool, path: Path, labelled: bool) -> list[int]:
    """Where the texts stand and, last, the label: told by the names of the columns, or else by their number."""
    if not titled:
        if len(names) - labelled in (1, 2):
            return list(range(len(names)))
        label = " and the label" if labelled else ""
        columns = f"columns: {len(names)}, and no line of names"
        raise UserError(f"{path}, line 1: {columns}; write one text or two{label}, a tab between them; else {NAMED}")
    texts = next((texts for texts in TEXTS if {*texts} <= {*names}), ())
    labels = [name for name in COLUMNS if name in names][:1] if labelled else []
    if not texts or len(labels) < labelled:
        raise UserError(f"{path}, line 1: columns {', '.join(names):.200}; {NAMED}")
    return [names.index(name) for name in (*texts, *labels)]


def _label(label: object) -> str:
    if not isinstance(label, str | int) or label == "":
        raise ValueError(f"the label {str(label)!r:.60} is empty or no name")
    return str(label)


def _number(label: object) -> float:
    try:
        number = math.nan if isinstance(label, bool) or not isinstance(label, str | float | int) else float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"the label {str(label)!r:.60} is no finite number")
    return number


def _texts(value: dict[str, Any], labelled: bool, *, read: Callable[[object], Any]) -> tuple[tuple[str, ...], Any]:
    texts = strings([value["text"]] if "text" in value else [value["first"], value["second"]])
    label = value["label"] if labelled else None
    answer = read(label.strip() if isinstance(label, str) else label) if labelled else None
    return tuple(map(str.strip, texts)), answer


def _choices(value: dict[str, Any], labelled: bool) -> tuple[tuple[str, ...], int | None]:
    context, *choices = (text.strip() for text in strings([value["text"], *strings(value["choices"])]))
    if len(choices) < 2:
        raise ValueError("fewer than two choices")
    label = value["label"] if labelled else None
    if labelled and (type(label) is not int or not 0 <= label < len(choices)):
        raise ValueError(f"the label {str(label)!r:.60} is no number of a choice, which are counted from 0")
    return (context, *choices), label


def _tagged(value: dict[str, Any], labelled: bool) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    words, tags = strings(value["words"]), strings(value["tags"]) if labelled else None
    if not all(map(str.strip, (*words, *(tags or ())))) or not words:
        raise ValueError("a word or tag is empty, or there is none")
    if tags is not None and len(tags) != len(words):
        raise ValueError(f"{len(words)} words and {len(tags)} tags")
    return words, tags


def _sentences(path: Path, corpus: str, labelled: bool) -> Iterator[Example]:
    """CoNLL's columns: a word first, its tag last, a blank line after each sentence."""
    rows: list[list[str]] = []
    start = width = size = 0
    for number, line in enumerate(chain(lines(path, strict=True), [""]), 1):
        cells = line.split()
        if cells and cells[0] != "-DOCSTART-":
            width, start, size = width or len(cells), start or number, size + len(line)
            if len(cells) != width or len(cells) < 1 + labelled:
                wrong = f"columns: {len(cells)}, not {f'{width} as before' if len(cells) != width else '2 or more'}"
                raise UserError(f"{path}, line {number}: {wrong}; write a word first and its tag last")
            if size > LONGEST:
                raise UserError(f"{path}, line {start}: a sentence without end; put a blank line after each sentence")
            rows.append([cells[0], cells[-1]])
        elif rows:
            words, tags = zip(*rows, strict=True)
            yield Example(words, tags if labelled else None, start)
            rows, start, size = [], 0, 0


def _questions(path: Path, corpus: str, labelled: bool) -> Iterator[Example]:
    """SQuAD v1.1: questions on paragraphs, with answers that stand in them; an answer at a wrong place is left out."""
    number, part = 0, corpus.removeprefix("squad/")
    try:
        for i, article in enumerate(json.loads(read_regular(path, LARGEST))["data"]):
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    number += 1
                    if part in ("train", "test") and (part == "test") != (i % 6 == 5):
                        continue
                    document, question = strings([paragraph["context"], asked["question"]])
                    answers = _standing(document, asked["answers"]) if labelled else None
                    yield Example((document, question), answers, number)
    except UserError:
        raise
    except BROKEN as error:
        where, why = f"{path}, question {number}" if number else path, f"{type(error).__name__}: {error}"
        layout = f"{QUESTIONS.such}, each answer with its text and answer_start"
        raise UserError(f"{where}: not of SQuAD's layout ({why}); write {layout}") from error


def _standing(document: str, answers: list[dict[str, Any]]) -> tuple[tuple[int, str], ...]:
    given = [(answer["answer_start"], answer["text"]) for answer in answers]
    standing = tuple((start, text) for start, text in given if text and start >= 0 and document.startswith(text, start))
    if not standing:
        raise ValueError("no answer stands at its answer_start in the context")
    return standing


_TABLES = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz")
LABELS = Format(
    name="labels", endings=_TABLES, read_object=partial(_texts, read=_label), read_file=partial(_table, read=_label),
    such='{"text": "a fine film", "label": "good"}, or "first" and "second" in the place of "text"',
)  # fmt: skip
NUMBERS = Format(
    name="numbers", endings=_TABLES, read_object=partial(_texts, read=_number), read_file=partial(_table, read=_number),
    such='{"first": "a cat sits", "second": "a cat sat", "label": 4.2}, or "text" alone',
)  # fmt: skip
CHOICES = Format(
    name="choices", endings=(".jsonl", ".jsonl.gz"), read_object=_choices, read_file=_sentences,
    such='{"text": "He was cold.", "choices": ["He lit a fire.", "He swam."], "label": 0}',
)  # fmt: skip
TAGS = Format(
    name="tags", endings=(".conll", ".txt", ".jsonl", ".conll.gz", ".txt.gz", ".jsonl.gz"), read_object=_tagged,
    read_file=_sentences, such='{"words": ["Ada", "slept"], "tags": ["B-PER", "O"]}',
)  # fmt: skip
QUESTIONS = Format(
    name="questions on documents", endings=(".json",), read_object=_tagged, read_file=_questions, num_shared=1,
    such='{"data": [{"paragraphs": [{"context": ..., "qas": [{"question": ..., "answers": [...]}]}]}]}',
)  # fmt: skip
