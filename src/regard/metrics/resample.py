"""Whether one system is better than another, or was only luckier with its seeds or with this test set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from statistics import NormalDist, fmean
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.metrics.text import SHARES, References, check, sacrebleu_metric, shares, streams
from regard.rng import Key

SAMPLES, SEED = 1000, 12345
RESAMPLED = ("bleu", "bleu_tokenized", "chrf")
Texts = Sequence[str]
NORMAL = NormalDist().inv_cdf(0.975)
Floats = NDArray[np.float64]
Score = Callable[[NDArray[np.int64]], float]  # of the items with these numbers, some of them more than once


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, where something tells it."""

    value: float
    low: float | None = None
    high: float | None = None

    def within(self, low: float, high: float) -> Self:
        """An interval that goes no farther than the metric does."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(low, self.low), high=min(high, self.high))

    def __format__(self, style: str) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:{style}} to {self.high:{style}})"
        return f"{self.value:{style}}{interval}"


@dataclass(frozen=True)
class Gap(Estimate):
    """One system's mean minus another's; the p-value is the chance of a gap like it between equal systems."""

    p_value: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Two scores, second minus first with its 95 % interval, and the chance of such a gap between equal systems."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class System:
    """The scores of one system."""

    name: str
    values: Sequence[float]  # of each seed
    drawn: Sequence[Floats] = ()
    """Of each seed on the test sets that `resampled` draws; none where there are no items to draw from."""


def text_score(metric: str, said: Texts, wanted: References) -> Score:
    """By any of the metrics of texts, from counts of each sentence that are summed."""
    if metric in SHARES:
        counts = np.array([shares(metric, *pair) for pair in zip(said, wanted, strict=True)], dtype=np.int64)
        return lambda chosen: float(counts[chosen, 0].sum() / max(counts[chosen, 1].sum(), 1))
    scorer = sacrebleu_metric(metric)  # which has no public way to its counts; its private names are used here alone
    scorer._ref_cache = scorer._cache_references(streams(wanted))
    counts = np.array(scorer._extract_corpus_statistics(said, None), dtype=np.int64)
    return lambda chosen: scorer._compute_score_from_stats(counts[chosen].sum(0).tolist()).score


def label_score(metric: Callable[[list[Any], list[Any]], float], said: Sequence[Any], wanted: Sequence[Any]) -> Score:
    """By a function of what was said and what was wanted."""
    return lambda chosen: metric([said[i] for i in chosen], [wanted[i] for i in chosen])


def resampled(score: Score, num_items: int, samples: int = SAMPLES) -> Floats:
    """On test sets drawn from the given one with replacement [Koehn 2004], the same for whatever is scored."""
    numbers = (Key(SEED, ("bootstrap", i)).generator().integers(num_items, size=num_items) for i in range(samples))
    return np.array([score(chosen) for chosen in numbers])


def paired_bootstrap(first: Texts, second: Texts, references: References, metric: str = "bleu") -> Comparison:
    """Two systems on the same drawn test sets [Koehn 2004].

    The p-value is sacreBLEU's, but a gap as wide as the real one counts as well as a wider one: two systems that say
    the same get 1, where sacreBLEU gives them its smallest value.
    """
    check(first, references, "outputs of the first system")
    check(second, references, "outputs of the second system")
    if metric not in RESAMPLED:
        raise UserError(f"no paired bootstrap for {metric!r}; use one of {', '.join(RESAMPLED)}")
    scores = [text_score(metric, system, references) for system in (first, second)]
    before, after = (score(np.arange(len(references))) for score in scores)
    drawn = [resampled(score, len(references)) for score in scores]
    gaps = np.abs(drawn[1] - drawn[0])
    wider = int((gaps - gaps.mean() >= abs(after - before)).sum())
    return Comparison(before, after, after - before, *_middle(drawn[1] - drawn[0]), (wider + 1) / (SAMPLES + 1))


def estimate(system: System) -> Estimate:
    """The mean over seeds. Its interval is of bootstrap over items and seeds; without items, Student's over seeds."""
    mean = fmean(system.values)
    if not isfinite(mean):
        return Estimate(mean)
    freedom = _freedom(system)
    if len(system.drawn):
        return Estimate(mean, *_middle(_means(system, freedom)))
    if not freedom:
        return Estimate(mean)
    reach = _student(freedom) * sqrt(_spread(system))
    return Estimate(mean, mean - reach, mean + reach)


def gap(first: System, second: System) -> Gap:
    """Of the means, items being drawn for both alike and seeds for each alone; without items, Welch's test over seeds.

    The p-value of the bootstrap is two-sided, (wider + 1) / (samples + 1): wider is twice the number of samples whose
    sign is the other one or none, and all of them at most. Equal systems get 1.
    """
    difference = fmean(first.values) - fmean(second.values)
    if not isfinite(difference):
        return Gap(difference)
    freedom = _freedom(first, second)
    if len(first.drawn) and len(second.drawn):
        drawn = _means(first, freedom) - _means(second, freedom)
        wider = min(len(drawn), 2 * int((drawn * np.sign(difference) <= 0).sum()))
        return Gap(difference, *_middle(drawn), (wider + 1) / (len(drawn) + 1))
    if min(len(first.values), len(second.values)) < 2:
        return Gap(difference)
    from scipy.special import stdtr  # type: ignore[import-untyped]

    error = sqrt(_spread(first) + _spread(second))
    reach = _student(freedom) * error
    p_value = 2 * float(stdtr(freedom, -abs(difference) / error)) if error else float(difference == 0)
    return Gap(difference, difference - reach, difference + reach, p_value)


def _means(system: System, freedom: float) -> Floats:
    """Over seeds drawn with replacement, on each drawn test set.

    A few seeds drawn from themselves lie too close together: their variance is short of a factor n / (n - 1), and they
    have no tails. So their distances from the mean are stretched as far as Student's interval is wider than the normal.
    """
    scores = np.array(system.drawn)  # (seeds, samples)
    seeds, samples = scores.shape
    middle: Floats = scores.mean(0)
    if seeds == 1:
        return middle
    chosen = Key(SEED, ("seeds", system.name)).generator().integers(seeds, size=(samples, seeds))
    means = scores[chosen, np.arange(samples)[:, None]].mean(1)
    return middle + sqrt(seeds / (seeds - 1)) * _student(freedom) / NORMAL * (means - middle)


def _spread(system: System) -> float:
    """The variance of the mean."""
    return float(np.var(system.values, ddof=1)) / len(system.values) if len(system.values) > 1 else 0.0


def _freedom(*systems: System) -> float:
    """Degrees of freedom of a mean, or of a difference between means [Welch 1947]; 0 where no system has two seeds."""
    several = [(_spread(system), len(system.values) - 1) for system in systems if len(system.values) > 1]
    total = sum(spread for spread, _ in several)
    if not total:
        return float(sum(each for _, each in several))
    return total**2 / sum(spread**2 / each for spread, each in several)


def _student(freedom: float) -> float:
    """Standard errors from the mean to the end of a 95 % interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _middle(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return low, high
