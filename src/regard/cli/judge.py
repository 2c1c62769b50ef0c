"""How good a run is, what it cost and how fast its model is, for `regard compare`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, get_args

from regard.data.config import PAIR_ENDINGS, ExamplesConfig, LabelTask, PairsConfig
from regard.data.examples import Example, read_examples, split
from regard.data.text import pairs
from regard.errors import UserError
from regard.exchange.folders import load_any
from regard.files import sealed, unsealed, write
from regard.look.model import ready
from regard.metrics.labels import LABEL_METRICS, METRICS_OF
from regard.metrics.resample import Score, label_score, text_score
from regard.metrics.text import METRICS
from regard.tasks.folder import read_json, stamp
from regard.tasks.translator import Translator
from regard.train.checkpoint import log_entries, newest
from regard.train.config import AnyRecipe, ReadRecipe
from regard.train.plan import Plan

JUDGED = "judged.json"
TIMED, ROUNDS = 200, 3  # items at most by which a model is timed, and how often


@dataclass(frozen=True, kw_only=True)
class Given:
    """What runs are judged by: a metric, on files or a corpus; where neither is given, on the validation data."""

    metric: str
    source: Path | None = None
    target: Path | None = None
    data: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise UserError("one of --source and --target is missing; they belong together, line by line")
        if self.source is not None and self.data is not None:
            raise UserError("--data and --source are both given; judge by one of them")

    @property
    def chosen(self) -> str:
        """The data that were asked for, or nothing."""
        return self.data or (f"{self.source} and {self.target}" if self.source else "")

    @property
    def name(self) -> str:
        """Another one if anything is judged otherwise."""
        files = [Path(name) for name in (self.source, self.target, self.data) if name and Path(name).is_file()]
        return " ".join([self.metric, self.chosen or "validation data", *map(stamp, files)])

    def pairs(self) -> PairsConfig | None:
        if self.data is not None:
            return PairsConfig(**{"pairs" if self.data.endswith(PAIR_ENDINGS) else "corpus": self.data})
        return PairsConfig(source=str(self.source), target=str(self.target)) if self.source else None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A score; and, where there are items, what each asked, what was said and what was wanted, as JSON has it."""

    metric: str
    higher: bool
    value: float
    signature: str | None = None
    asked: Sequence[Any] = ()
    said: Sequence[Any] = ()
    wanted: Sequence[Any] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    judged: Judged
    parameters: int
    flops: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Judge:
    """What a task is judged by: which settings of the data have to be the same, and what its items are called."""

    judge: Callable[[Any, AnyRecipe, Given], Judged]
    check: Callable[[AnyRecipe, Given], None]
    """Whether there is something to judge by, asked before the first run."""
    score: Callable[[Judged], Score] | None = None
    """Of items drawn again."""
    answer: Callable[[Any, Sequence[Any]], object] | None = None
    """What is timed: a model, given what was asked."""
    items: str = "items"
    same: tuple[str, ...] = ("train", "valid", "hold_out")
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of metrics that are no percentage."""


def judge_run(folder: Path, recipe: AnyRecipe, given: Given) -> Run:
    """Judge a run whose training has ended, keep that in its folder, and give back what was kept."""
    judged = JUDGES[recipe.task].judge(opened(folder, given), recipe, given)
    run = asdict(Run(judged=judged, **_cost(folder)))
    write(folder / JUDGED, sealed({"by": given.name, **run}))
    stored = stored_run(folder, given)
    assert stored is not None
    return stored


def stored_run(folder: Path, given: Given) -> Run | None:
    """What was kept of a run, if it was judged by the same."""
    try:
        stored = unsealed(json.loads((folder / JUDGED).read_bytes()))
        if stored.pop("by") != given.name:
            return None
        return Run(**{**stored, "judged": Judged(**stored["judged"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def metric_for(recipes: Sequence[AnyRecipe]) -> str:
    """Nats of a token compare nothing where tokens differ."""
    first = recipes[0]
    if isinstance(first, ReadRecipe) and first.train.metric == "default":
        return METRICS_OF[first.task][0]
    if first.task == "translation" or isinstance(first, ReadRecipe):
        return first.train.metric
    words = {(recipe.data.tokenizer, getattr(recipe.data, "words", None)) for recipe in recipes}
    return "loss" if len(words) == 1 else "per_character"


def speeds(folders: Mapping[str, Path], task: str, asked: Sequence[Any], given: Given) -> dict[str, float]:
    """Items a second of each model, the median of rounds that are interleaved, after one that does not count."""
    answer = JUDGES[task].answer
    assert answer is not None
    sample = asked[:: -(-len(asked) // TIMED)]
    models = {name: opened(folder, given) for name, folder in folders.items()}
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            began = time.perf_counter()
            answer(model, sample)
            spent[name].append(time.perf_counter() - began)
    return {name: len(sample) / median(each[1:]) for name, each in spent.items()}


def opened(folder: Path, given: Given) -> Any:
    return ready(load_any(folder), threads=given.threads)


def _cost(folder: Path) -> dict[str, Any]:
    """By the newest checkpoint; updates after it, until patience ended the run, are taken to cost as much as others."""
    last = log_entries(folder / "metrics.jsonl")[-1]
    found: dict[str, Any] = {"parameters": Plan.load(folder / "plan.json").parameters}
    checkpoint, _ = newest(folder / "checkpoints")
    if checkpoint is None:
        return {**found, "flops": None, "seconds": last["seconds"]}
    state = json.loads((checkpoint / "state.json").read_bytes())
    flops = state["flops"] * max(1.0, last["step"] / state["step"])
    return {**found, "flops": flops, "seconds": max(state["seconds"], last["seconds"])}


def _check_pairs(recipe: AnyRecipe, given: Given) -> None:
    config = given.pairs()
    if config is not None:
        for _ in pairs(config):  # mistakes are told now, and not after hours
            pass
    elif not (recipe.data.valid or recipe.data.hold_out):
        raise UserError("the recipes hold nothing out to judge by; give --source and --target, or --data")


def _check_text(recipe: AnyRecipe, given: Given) -> None:
    if given.chosen:
        raise UserError(f"models of running text are judged by their validation loss; drop {given.chosen}")
    if not (recipe.data.valid or recipe.data.hold_out):
        raise UserError("the recipes hold nothing out to judge by; add --set data.hold_out=0.1")


def _judge_translation(model: Translator, recipe: AnyRecipe, given: Given) -> Judged:
    folder, asked, wanted = model.loaded.folder, [], []
    held = PairsConfig(source=str(folder / "valid.source"), target=str(folder / "valid.target"))
    config = given.pairs() or (held if recipe.data.hold_out else None)
    for corpus in [config] if config else recipe.data.valid:
        assert isinstance(corpus, PairsConfig)
        found = list(pairs(corpus))
        asked += [(pair.source, pair.tag) for pair in found]
        wanted += [pair.target for pair in found]
    said = _translate(model, asked)
    score, direction = METRICS[given.metric]
    scored = score(said, wanted)
    return Judged(
        metric=given.metric, higher=direction == "higher", value=scored.value, signature=scored.signature, asked=asked,
        said=said, wanted=wanted,
    )  # fmt: skip


def _translate(model: Translator, asked: Sequence[tuple[str, str | None]]) -> list[str]:
    """Sources with the directions they are to go."""
    said: list[str] = []
    for tag, members in groupby(asked, key=itemgetter(1)):
        model.tag = tag
        found = model.translate([source for source, _ in members])
        said += [model.text(hypotheses[0]) if hypotheses else "" for hypotheses in found]
    return said


def _judge_text(model: Any, recipe: AnyRecipe, given: Given) -> Judged:
    """By the best loss on the validation text, as training found it."""
    value = float(read_json(model.loaded.folder)["metrics"][given.metric])
    return Judged(metric=given.metric, higher=False, value=value)


def _check_labels(recipe: AnyRecipe, given: Given) -> None:
    if given.source is not None:
        raise UserError("--source and --target are for translators; give labelled examples by --data")
    if not _labelled(recipe, given):
        raise UserError("the recipes hold nothing out to judge by; give --data, or add --set data.hold_out=0.1")


def _labelled(recipe: AnyRecipe, given: Given) -> list[Example]:
    assert isinstance(recipe, ReadRecipe)
    if given.data is None:
        return split(recipe.data, recipe.task)[1]
    kind = "file" if Path(given.data).is_file() else "corpus"
    return read_examples([ExamplesConfig(**{kind: given.data})], recipe.task)


def _judge_labels(model: Any, recipe: AnyRecipe, given: Given) -> Judged:
    asked = _labelled(recipe, given)
    said, wanted = model.predictions(asked)
    metric, direction = LABEL_METRICS[given.metric]
    value = float(metric(said, wanted))
    higher = direction == "higher"
    return Judged(metric=given.metric, higher=higher, value=value, asked=asked, said=said, wanted=wanted)


def _label(model: Any, asked: Sequence[Any]) -> None:
    model.predictions([Example(tuple(texts), answer, line) for texts, answer, line in asked])


NATS = dict.fromkeys(("loss", "per_character"), (0.0, inf))
TEXT = Judge(judge=_judge_text, check=_check_text, same=(*Judge.same, "documents"), limits=NATS)
LABELS = Judge(
    judge=_judge_labels,
    check=_check_labels,
    score=lambda judged: label_score(LABEL_METRICS[judged.metric][0], judged.said, judged.wanted),
    answer=_label,
    items="examples",
    limits={"pearson": (-1.0, 1.0), "spearman": (-1.0, 1.0), "matthews": (-100.0, 100.0)},
)
JUDGES: dict[str, Judge] = {
    **dict.fromkeys(get_args(LabelTask), LABELS),
    "translation": Judge(
        judge=_judge_translation,
        check=_check_pairs,
        score=lambda judged: text_score(judged.metric, judged.said, judged.wanted),
        answer=_translate,
        items="sentences",
        limits={"exact_match": (0.0, 1.0), "word_error_rate": (0.0, inf)},
    ),
    "language": TEXT,
    "bidirectional": replace(TEXT, same=(*TEXT.same, "tokenizer", "words")),
    "masked": replace(TEXT, same=(*TEXT.same, "tokenizer", "words", "masked", "whole_words")),
}
