"""Scores of labels against closed formulas, counts by hand, and SQuAD's official cases."""

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.metrics.labels import (
    LABEL_METRICS,
    accuracy,
    answer_f1,
    entities,
    entity_f1,
    exact_match,
    f1,
    label_scores,
    matthews,
    normalised,
    pearson,
    spearman,
    tag_accuracy,
)
from regard.tasks.labelled.config import LabelledRecipe
from regard.tasks.labelled.question import metrics_of
from regard.tasks.registry import TASKS

T = TypeVar("T")
CALM = settings(deadline=None, derandomize=True)  # the first call imports scikit-learn
SENTENCE = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=1, max_size=8)
NUMBERS = st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=1, max_size=20)


def labels(names: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), min_size=1, max_size=20)


def apart(answers: list[tuple[T, T]]) -> tuple[list[T], list[T]]:
    return [a for a, _ in answers], [b for _, b in answers]


def plain_f1(said: list[str], wanted: list[str], label: str) -> float:
    hits = sum(a == b == label for a, b in zip(said, wanted, strict=True))
    return 2 * hits / ((said.count(label) + wanted.count(label)) or 1)


def plain_pearson(x: list[float], y: list[float]) -> float:
    a, b = np.array(x) - np.mean(x), np.array(y) - np.mean(y)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def ranks(x: list[float]) -> list[float]:
    """From 1; equals share the mean of theirs."""
    return [sum(b < a for b in x) + (x.count(a) + 1) / 2 for a in x]


@CALM
@given(labels("01"))
def test_of_two_labels_f1_is_that_of_the_last_and_matthews_the_closed_formula(answers: list[tuple[str, str]]) -> None:
    said, wanted = apart(answers)
    if {*said, *wanted} == {"0", "1"}:
        assert f1(said, wanted) == pytest.approx(100 * plain_f1(said, wanted, "1"))
    tp, tn, fp, fn = (answers.count(pair) for pair in (("1", "1"), ("0", "0"), ("1", "0"), ("0", "1")))
    below = np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    assert matthews(said, wanted) == pytest.approx(100 * (tp * tn - fp * fn) / below if below else 0.0)
    assert accuracy(said, wanted) == pytest.approx(100 * (tp + tn) / len(said))


@CALM
@given(labels("abc"))
def test_of_more_labels_f1_is_the_mean_and_matthews_a_correlation_of_indicators(answers: list[tuple[str, str]]) -> None:
    said, wanted = apart(answers)
    if len({*said, *wanted}) == 3:
        assert f1(said, wanted) == pytest.approx(100 * np.mean([plain_f1(said, wanted, label) for label in "abc"]))
    x, y = ([[float(label == name) for name in "abc"] for label in side] for side in (said, wanted))
    (xx, xy), (_, yy) = [
        [np.trace((np.array(a) - np.mean(a, 0)).T @ (np.array(b) - np.mean(b, 0))) for b in (x, y)] for a in (x, y)
    ]
    expected = 100 * xy / np.sqrt(xx * yy) if xx > 1e-9 and yy > 1e-9 else 0.0
    assert matthews(said, wanted) == pytest.approx(expected, abs=1e-9)


@CALM
@given(NUMBERS)
def test_correlations_are_the_closed_formulas_of_values_and_of_ranks(answers: list[tuple[int, int]]) -> None:
    said, wanted = apart([(float(a), float(b)) for a, b in answers])
    if min(len({*said}), len({*wanted})) > 1:
        assert pearson(said, wanted) == pytest.approx(plain_pearson(said, wanted), abs=1e-12)
        assert spearman(said, wanted) == pytest.approx(plain_pearson(ranks(said), ranks(wanted)), abs=1e-12)
    else:
        assert (pearson(said, wanted), spearman(said, wanted)) == (0.0, 0.0)


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize("said", [[2.0] * 3, [1e9, 1e9 + 1e-6, 1e9], [np.nan, 1.0, 2.0], [np.inf, 1.0, 2.0]])
def test_what_has_no_correlation_warns_of_nothing(
    metric: Callable[[list[float], list[float]], float], said: list[float]
) -> None:
    assert -1 <= metric(said, [1.0, 2.0, 4.0]) <= 1
    assert metric([2.0] * 3, [1.0, 2.0, 4.0]) == metric([np.nan, 1.0, 2.0], [1.0, 2.0, 4.0]) == 0.0


def test_labels_that_are_nearly_all_different_warn_of_nothing() -> None:
    names = [f"label {i}" for i in range(30)]
    assert f1(names, names) == accuracy(names, names) == matthews(names, names) == 100.0
    assert f1(["a"], ["b"]) == matthews(["a"], ["b"]) == 0.0


def test_entities_begin_at_b_and_at_i_after_anything_else() -> None:
    assert entities(["O", "B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-PER"]) == [
        (1, 3, "PER"),
        (4, 5, "LOC"),
        (5, 6, "LOC"),
        (6, 7, "PER"),
    ]
    assert entities(["I-A", "I-A", "O", "I-A", "I-B"]) == [(0, 2, "A"), (3, 4, "A"), (4, 5, "B")]
    assert entities(["B-x-y", "I-x-y", "B", "I"]) == [(0, 2, "x-y"), (2, 4, "")]
    assert entities(["NOUN", "VERB", "-"]) == []


@CALM
@given(SENTENCE)
def test_entities_are_the_longest_runs_that_nothing_cuts(tags: list[str]) -> None:
    def holds(a: str, b: str) -> bool:
        return b[0] == "I" and a != "O" and a[2:] == b[2:]

    links = [holds(a, b) for a, b in pairwise(tags)]
    runs = [
        (i, j, tags[i][2:])
        for i in range(len(tags))
        for j in range(i + 1, len(tags) + 1)
        if tags[i] != "O"
        and all(links[i : j - 1])
        and not (i and links[i - 1])
        and not (j < len(tags) and links[j - 1])
    ]
    assert entities(tags) == runs


def test_entity_f1_counted_by_hand() -> None:
    wanted = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-ORG", "O"]]
    said = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "O"], ["B-LOC", "O"]]
    assert entity_f1(said, wanted) == pytest.approx(100 * 2 * 1 / (4 + 3))  # one of four said, of three wanted
    assert tag_accuracy(said, wanted) == pytest.approx(100 * 5 / 8)
    assert entity_f1(wanted, wanted) == 100.0
    assert entity_f1([["O"]], [["O"]]) == 0.0
    # the same place in another sentence is no hit
    assert entity_f1([["B-A"], ["O"]], [["O"], ["B-A"]]) == 0.0


def test_a_sentence_with_another_number_of_tags_is_refused() -> None:
    for metric in (tag_accuracy, entity_f1):
        with pytest.raises(UserError, match="sentence 2.* 1 .* 2 "):
            metric([["O"], ["O"]], [["O"], ["O", "O"]])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("The Denver Broncos!", "denver broncos"),
        ("an apple, a pear and THE  a.b.c", "apple pear and abc"),
        ("Atheists' anthem", "atheists anthem"),
        ("the-end", "theend"),  # punctuation goes first, so this article stays
        ("“the”", "“ ”"),  # only ASCII is punctuation
        ("a", ""),
    ],
)
def test_answers_are_normalised_as_squad_does(answer: str, words: str) -> None:
    assert normalised(answer) == words.split()


@pytest.mark.parametrize(
    ("said", "golds", "exact", "overlap"),
    [
        ("the Denver Broncos.", ["Denver Broncos"], 1, 1),
        ("Broncos", ["Denver Broncos"], 0, 2 / 3),
        ("Broncos", ["Denver Broncos", "The Broncos", "Carolina"], 1, 1),
        ("in Santa Clara California", ["Santa Clara", "Levi's Stadium in Santa Clara"], 0, 6 / 9),
        ("gold gold", ["gold"], 0, 2 / 3),  # a word counts as often as both have it
        ("gold gold", ["gold silver gold lead"], 0, 4 / 6),
        ("Panthers", ["Broncos", "Denver"], 0, 0),
        ("", ["Broncos"], 0, 0),
        ("The", ["a"], 1, 0),  # nothing is left of either: the official script of v1.1 does so
    ],
)
def test_squad_scores_counted_by_hand(said: str, golds: list[str], exact: float, overlap: float) -> None:
    for wanted in (golds, tuple((7, gold) for gold in golds)):
        assert exact_match([said], [wanted]) == pytest.approx(100 * exact)
        assert answer_f1([said], [wanted]) == pytest.approx(100 * overlap)
    assert answer_f1([said, "x"], [golds, ["x"]]) == pytest.approx(50 * (overlap + 1))


@CALM
@given(st.lists(st.sampled_from(["the", "Ada", "slept", "well", "."]), max_size=5), st.text(max_size=20))
def test_answer_f1_is_symmetric_and_at_least_an_exact_match(words: list[str], other: str) -> None:
    one = " ".join(words)
    assert answer_f1([one], [[other]]) == pytest.approx(answer_f1([other], [[one]]))
    if normalised(one):
        assert answer_f1([one], [[other, one]]) == exact_match([one], [[other, one]]) == 100.0
        assert answer_f1([one], [[other]]) >= exact_match([one], [[other]])


ANSWERS = {
    "classification": (["1", "0", "1"], ["1", "0", "0"]),
    "regression": ([1.0, 2.0, 4.0], [1.0, 2.0, 3.0]),
    "choice": ([0, 2, 1], [0, 2, 2]),
    "tagging": ([("B-A", "O")], [("B-A", "B-B")]),
    "spans": (["in Rome"], [((3, "Rome"), (9, "Paris"))]),
}


def test_every_task_has_its_scores() -> None:
    assert {name for name in TASKS if issubclass(TASKS[name].recipe, LabelledRecipe)} == {*ANSWERS}
    scores = {task: label_scores(metrics_of(task), *ANSWERS[task]) for task in ANSWERS}
    assert {task: tuple(found) for task, found in scores.items()} == {task: metrics_of(task) for task in ANSWERS}
    assert {name for task in ANSWERS for name in metrics_of(task)} == {*LABEL_METRICS}
    assert scores["classification"] == pytest.approx({"accuracy": 200 / 3, "f1": 200 / 3, "matthews": 50.0})
    assert scores["regression"] == pytest.approx({"pearson": 3 / np.sqrt(28 / 3), "spearman": 1.0})
    assert scores["choice"] == pytest.approx({"accuracy": 200 / 3})
    assert scores["tagging"] == pytest.approx({"tag_accuracy": 50.0, "entity_f1": 200 / 3})
    assert scores["spans"] == pytest.approx({"answer_f1": 200 / 3, "exact_match": 0.0})


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_nothing_to_score_and_unequal_numbers_are_refused(name: str) -> None:
    metric, direction = LABEL_METRICS[name]
    assert direction == "higher"
    with pytest.raises(UserError, match="answers|sentences"):
        metric([], [])
    with pytest.raises(UserError, match="2 (answers|sentences).* 1 "):
        metric(["a", "b"], ["a"])


def test_without_scikit_learn_one_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(UserError, match=r"sklearn\.metrics.*regard\[train\]"):
        f1(["a"], ["b"])


def test_the_module_itself_imports_neither_library() -> None:
    code = "import sys, regard.metrics.labels; sys.exit(bool({'sklearn', 'scipy', 'torch'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True)
