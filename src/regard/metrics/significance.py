"""Whether one system is better than another, or was only luckier with this test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.metrics.text import check, edits, sacrebleu_metric
from regard.rng import Key

Texts = Sequence[str]
RESAMPLED = ("bleu", "bleu_tokenized", "chrf")


@dataclass(frozen=True)
class Comparison:
    """Two scores, second minus first with its 95 % interval, and the chance of such a gap between equal systems."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float


def paired_bootstrap(
    first: Texts, second: Texts, references: Texts, metric: str = "bleu", samples: int = 1000, seed: int = 12345
) -> Comparison:
    """Both systems on the same test sets, drawn from the given one with replacement [Koehn 2004].

    The p-value is sacreBLEU's, but a gap as wide as the real one counts as well as a wider one: two systems that say
    the same get 1, where sacreBLEU gives them its smallest value.
    """
    check(first, references, "outputs of the first system")
    check(second, references, "outputs of the second system")
    if metric not in RESAMPLED:
        raise UserError(f"no paired bootstrap for {metric!r}; use one of {', '.join(RESAMPLED)}")
    if samples < 1:
        raise UserError(f"{samples} samples show nothing; use 1000")
    counts, score = statistics(metric, (first, second), references)
    real = [score(system.sum(0)) for system in counts]
    drawn = np.empty((samples, 2))
    for i in range(samples):
        chosen = Key(seed, ("bootstrap", i)).generator().integers(len(references), size=len(references))
        drawn[i] = [score(system[chosen].sum(0)) for system in counts]
    differences = drawn[:, 1] - drawn[:, 0]
    gaps = np.abs(differences)
    wider = int((gaps - gaps.mean() >= abs(real[1] - real[0])).sum())
    low, high = np.quantile(differences, (0.025, 0.975)).tolist()
    return Comparison(real[0], real[1], real[1] - real[0], low, high, (wider + 1) / (samples + 1))


def statistics(
    metric: str, systems: Sequence[Texts], references: Texts
) -> tuple[list[NDArray[np.int64]], Callable[[NDArray[np.int64]], float]]:
    """Each system's counts (sentences, statistics), and the score of such counts summed over sentences.

    sacreBLEU has no public way to them; its private names are used here and nowhere else.
    """
    if metric in SHARES:
        parts = [[SHARES[metric](*pair) for pair in zip(system, references, strict=True)] for system in systems]
        return [np.array(each, dtype=np.int64) for each in parts], lambda summed: float(summed[0] / max(summed[1], 1))
    scorer = sacrebleu_metric(metric)
    scorer._ref_cache = scorer._cache_references([references])
    counts = [np.array(scorer._extract_corpus_statistics(system, None), dtype=np.int64) for system in systems]
    return counts, lambda summed: scorer._compute_score_from_stats(summed.tolist()).score


# What is counted in a sentence, and of how many.
SHARES: dict[str, Callable[[str, str], tuple[int, int]]] = {
    "exact_match": lambda output, reference: (int(output == reference), 1),
    "word_error_rate": lambda output, reference: (edits(output.split(), reference.split()), len(reference.split())),
}
