"""Intervals and p-values against closed forms, SciPy, sacreBLEU, and how often they are right on data made for it."""

import math
import random

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from regard.metrics.labels import f1
from regard.metrics.resample import Estimate, Gap, System, estimate, gap, label_score, resampled, text_score
from regard.metrics.text import METRICS

ITEMS, SAMPLES, TRIALS = 40, 400, 400


def shares() -> NDArray[np.float64]:
    """How often each item is in each drawn test set, as shares of it: (samples, items)."""
    chosen: list[NDArray[np.int64]] = []
    resampled(lambda numbers: chosen.append(numbers) or 0.0, ITEMS, SAMPLES)  # type: ignore[func-returns-value]
    return np.array([np.bincount(numbers, minlength=ITEMS) for numbers in chosen]) / ITEMS


SHARES = shares()


def system(name: str, scores: NDArray[np.float64]) -> System:
    """Of scores (seeds, items), of which the mean is taken."""
    return System(name, scores.mean(1).tolist(), list(scores @ SHARES.T))


def texts(damage: float, seed: int) -> tuple[list[str], list[str]]:
    words, errors = random.Random(7), random.Random(seed)
    wanted = [[words.choice("abcdefgh") * 3 for _ in range(words.randrange(3, 9))] for _ in range(ITEMS)]
    said = [[errors.choice("xyz") if errors.random() < damage else word for word in line] for line in wanted]
    return [" ".join(line) for line in said], [" ".join(line) for line in wanted]


def test_without_items_the_interval_is_student_s() -> None:
    found = estimate(System("a", [1.0, 2.0, 3.0]))
    reach = 4.30265273 / math.sqrt(3)  # the 0.975 quantile for two degrees of freedom, and a deviation of 1
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - reach, 2 + reach))
    found = estimate(System("a", [1.0, 2.0]))
    reach = 12.7062047 * math.sqrt(0.5) / math.sqrt(2)
    assert (found.low, found.high) == pytest.approx((1.5 - reach, 1.5 + reach))


def test_without_items_the_test_is_welch_s() -> None:
    first, second = [3.1, 3.4, 2.9], [2.5, 2.9, 2.2, 2.4, 2.6]
    expected = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = expected.confidence_interval()
    found = gap(System("a", first), System("b", second))
    assert (found.p_value, found.low, found.high) == pytest.approx((expected.pvalue, low, high))
    assert found.value == pytest.approx(np.mean(first) - np.mean(second))
    assert gap(System("a", [1.0, 1.0]), System("b", [1.0, 1.0])).p_value == 1
    assert gap(System("a", [2.0, 2.0]), System("b", [1.0, 1.0])) == Gap(1.0, 1.0, 1.0, 0.0)


def test_one_seed_without_items_or_what_is_no_number_has_no_interval() -> None:
    assert estimate(System("a", [2.0])) == Estimate(2.0)
    assert gap(System("a", [2.0]), System("b", [1.0, 1.5])) == Gap(0.75)
    assert estimate(System("a", [1.0, math.inf])) == Estimate(math.inf)
    assert gap(System("a", [1.0, 2.0]), System("b", [1.0, -math.inf])) == Gap(math.inf)


@pytest.mark.parametrize(("seeds", "noise"), [(1, 0.0), (3, 0.1), (3, 2.0), (5, 0.5), (10, 1.0)])
def test_19_of_20_intervals_hold_the_truth(seeds: int, noise: float) -> None:
    draw = np.random.default_rng(seeds)
    held = reversed_ = 0
    for _ in range(TRIALS):
        item = draw.normal(0, 1, ITEMS)
        scores = [
            item + draw.normal(0, noise, (seeds, 1)) + draw.normal(0, 0.5, ITEMS) + draw.normal(0, 0.3, (seeds, ITEMS))
            for _ in range(2)
        ]
        first, second = (system(name, each) for name, each in zip("ab", scores, strict=True))
        found = estimate(first)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0 <= found.high
        p_value = gap(first, second).p_value
        assert p_value is not None
        reversed_ += p_value <= 0.05
    # Two standard errors of a share of 400 trials are 0.02; percentiles of 40 items are a little narrow, and few seeds
    # whose luck hardly matters make intervals wide.
    assert 0.9 <= held / TRIALS <= 0.995
    assert reversed_ / TRIALS <= 0.09, "equal systems differ too often"


def test_equal_systems_have_a_p_value_of_1_and_an_interval_around_0() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (3, ITEMS))
    one = gap(system("a", scores[:1]), system("b", scores[:1]))
    assert one == Gap(0.0, 0.0, 0.0, 1.0)
    found = gap(system("a", scores), system("b", scores))
    assert found.value == 0
    assert found.p_value == 1
    assert found.low is not None
    assert found.high is not None
    assert abs(found.low + found.high) < 0.15 * (found.high - found.low)


def test_a_clearly_better_system_is_found_out_whichever_way_is_better() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (3, ITEMS))
    better = scores + 1.5 + np.random.default_rng(1).normal(0, 0.1, (3, ITEMS))
    for sign in (1, -1):
        found = gap(system("a", sign * better), system("b", sign * scores))
        assert found.p_value is not None
        assert found.p_value <= 0.01
        assert found.low is not None
        assert sign * found.low > 0


def test_items_are_drawn_for_all_systems_alike() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (1, ITEMS))
    found = gap(system("a", scores + 0.25), system("b", scores))
    assert (found.value, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))


@pytest.mark.parametrize("metric", METRICS)
def test_the_score_of_chosen_texts_is_that_of_a_corpus_of_them(metric: str) -> None:
    said, wanted = texts(0.2, 1)
    chosen = np.random.default_rng(3).integers(ITEMS, size=ITEMS)
    expected = METRICS[metric][0]([said[i] for i in chosen], [wanted[i] for i in chosen]).value
    score = text_score(metric, said, wanted)
    assert score(chosen) == pytest.approx(expected, rel=1e-12)
    assert score(np.arange(ITEMS)) == pytest.approx(METRICS[metric][0](said, wanted).value, rel=1e-12)


def test_labels_are_scored_by_a_function_of_the_chosen() -> None:
    said, wanted = ["1", "0", "1", "1"], ["1", "1", "0", "1"]
    score = label_score(f1, said, wanted)
    assert score(np.array([0, 1, 3, 3])) == f1(["1", "0", "1", "1"], ["1", "1", "1", "1"])
    assert np.std(resampled(score, 4, 50)) > 0
