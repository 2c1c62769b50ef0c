"""Scores of answers to labelled examples: in percent, but Pearson's and Spearman's correlation from -1 to 1.

Each takes what was said and what was wanted, one for each example, in the form that examples have their answers in.
"""

import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, Literal

import numpy as np

from regard.errors import UserError
from regard.metrics.text import check

Golds = Sequence[str | tuple[int, str]]  # answers to a question: texts, or (place, text) as examples have them


def accuracy(said: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Share of answers that are the wanted ones."""
    check(said, wanted, "answers")
    return 100 * sum(a == b for a, b in zip(said, wanted, strict=True)) / len(said)


def f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 of the positive label, the last in order, as "1" of "0" and "1"; of more than two labels, their mean."""
    check(said, wanted, "answers")
    labels = sorted({*said, *wanted})
    counted = labels if len(labels) > 2 else labels[-1:]
    options = {"labels": counted, "average": "macro", "zero_division": 0}
    return 100 * float(_call("sklearn.metrics", "f1_score", wanted, said, **options))


def matthews(said: Sequence[str], wanted: Sequence[str]) -> float:
    """Matthews' correlation [Matthews 1975], of several labels [Gorodkin 2004]; 0 if either side is always the same."""
    check(said, wanted, "answers")
    return 100 * float(_call("sklearn.metrics", "matthews_corrcoef", wanted, said))


def _correlation(name: str, said: Sequence[float], wanted: Sequence[float]) -> float:
    """Of scipy.stats; 0 where there is none, as when either side is always the same."""
    check(said, wanted, "answers")
    x, y = np.asarray(said, np.float64), np.asarray(wanted, np.float64)
    if (x == x[0]).all() or (y == y[0]).all():
        return 0.0
    value = float(_call("scipy.stats", name, x, y).statistic)
    return value if np.isfinite(value) else 0.0


pearson = partial(_correlation, "pearsonr")
spearman = partial(_correlation, "spearmanr")


def tag_accuracy(said: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """Share of words with the wanted tag."""
    _check_words(said, wanted)
    return accuracy([*chain.from_iterable(said)], [*chain.from_iterable(wanted)])


def entity_f1(said: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """F1 of whole entities over all sentences, as conlleval counts them [Tjong Kim Sang+ 2000]; 0 if there are none."""
    _check_words(said, wanted)
    ours, theirs = ([{*entities(tags)} for tags in side] for side in (said, wanted))
    found = sum(map(len, map(set.intersection, ours, theirs)))
    return 200 * found / max(1, sum(map(len, ours)) + sum(map(len, theirs)))


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """(First word, word after the last, type) of each entity; B begins one, and so does I after O or another type."""
    found: list[tuple[int, int, str]] = []
    for i, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark == "I" and found and found[-1][1:] == (i, kind):
            found[-1] = (found[-1][0], i + 1, kind)
        elif mark in ("B", "I"):
            found.append((i, i + 1, kind))
    return found


def exact_match(said: Sequence[str], wanted: Sequence[Golds]) -> float:
    """Share of answers that are one of those wanted, after SQuAD's normalisation [Rajpurkar+ 2016]."""
    return _over_golds(lambda answer, gold: float(answer == gold), said, wanted)


def answer_f1(said: Sequence[str], wanted: Sequence[Golds]) -> float:
    """F1 of the words of an answer against the nearest of those wanted, the mean over questions [Rajpurkar+ 2016]."""
    return _over_golds(_words_f1, said, wanted)


def normalised(answer: str) -> list[str]:
    """The words of an answer as SQuAD compares them: in lower case, without punctuation and articles."""
    bare = "".join(c for c in answer.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def _over_golds(score: Callable[[list[str], list[str]], float], said: Sequence[str], wanted: Sequence[Golds]) -> float:
    check(said, wanted, "answers")
    total = 0.0
    for answer, golds in zip(said, wanted, strict=True):
        ours = normalised(answer)
        total += max(score(ours, normalised(gold if isinstance(gold, str) else gold[1])) for gold in golds)
    return 100 * total / len(said)


def _words_f1(answer: list[str], gold: list[str]) -> float:
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / max(1, len(answer) + len(gold))


def _check_words(said: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> None:
    check(said, wanted, "sentences")
    for i, (ours, theirs) in enumerate(zip(said, wanted, strict=True), 1):
        if len(ours) != len(theirs):
            raise UserError(f"sentence {i}: {len(ours)} tags for {len(theirs)} words; give one for each")


def _call(library: str, name: str, *sides: Any, **options: Any) -> Any:
    """A function of scikit-learn or SciPy, without what they warn of: few answers, or answers nearly all the same."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return getattr(import_module(library), name)(*sides, **options)
    except ImportError as error:
        raise UserError(f'{library} is not installed; pip install "regard[train]"') from error


_named = {each.__name__: each for each in (accuracy, f1, matthews, tag_accuracy, entity_f1, exact_match, answer_f1)}
LABEL_METRICS: dict[str, tuple[Callable[[Sequence[Any], Sequence[Any]], float], Literal["higher", "lower"]]] = {
    name: (metric, "higher") for name, metric in {**_named, "pearson": pearson, "spearman": spearman}.items()
}


def label_scores(metrics: Sequence[str], said: Sequence[Any], wanted: Sequence[Any]) -> dict[str, float]:
    """By each of the metrics that are named."""
    return {name: LABEL_METRICS[name][0](said, wanted) for name in metrics}
