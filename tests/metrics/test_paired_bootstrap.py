"""The paired bootstrap against sacreBLEU's own test, which draws other samples."""

import random
from functools import partial

import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.metrics.resample import RESAMPLED, paired_bootstrap

SACREBLEU = {"bleu": BLEU, "bleu_tokenized": partial(BLEU, tokenize="none", force=True), "chrf": CHRF}


def corpus(damage: float, seed: int, size: int = 80) -> tuple[list[str], list[str]]:
    """References, and outputs in which so many of the words are others."""
    words = random.Random(7)
    errors = random.Random(seed)
    references = [[words.choice("abcdefgh") * 3 for _ in range(words.randrange(4, 12))] for _ in range(size)]
    outputs = [[errors.choice("xyz") if errors.random() < damage else word for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in outputs]


@pytest.mark.parametrize("metric", RESAMPLED)
def test_scores_from_summed_statistics_are_the_corpus_scores(metric: str) -> None:
    references, first = corpus(0.3, 1)
    _, second = corpus(0.2, 2)
    found = paired_bootstrap(first, second, references, metric)
    assert found.first == SACREBLEU[metric]().corpus_score(first, [references]).score
    assert found.second == SACREBLEU[metric]().corpus_score(second, [references]).score
    assert found.difference == found.second - found.first


@pytest.mark.parametrize("metric", RESAMPLED)
@pytest.mark.parametrize("damage", [0.28, 0.25, 0.15])
def test_the_p_value_is_near_that_of_sacrebleu(metric: str, damage: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    references, first = corpus(0.3, 1)
    _, second = corpus(damage, 2)
    systems = [("first", first), ("second", second)]
    _, results = PairedTest(systems, {metric: SACREBLEU[metric]()}, [references], test_type="bs")()
    (expected,) = [result[1].p_value for name, result in results.items() if name != "System"]
    found = paired_bootstrap(first, second, references, metric)
    # Two estimates of a share from 1000 samples each differ by less than 4 * sqrt(2 * 0.25 / 1000) = 0.09.
    assert found.p_value == pytest.approx(expected, abs=0.09)


def test_a_clear_difference_is_significant_and_its_interval_excludes_zero() -> None:
    references, first = corpus(0.5, 1)
    _, second = corpus(0.1, 2)
    found = paired_bootstrap(first, second, references)
    assert 0 < found.low < found.difference < found.high
    assert found.p_value == 1 / 1001
    other = paired_bootstrap(second, first, references)
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


def test_two_systems_that_say_the_same_do_not_differ() -> None:
    references, outputs = corpus(0.3, 1)
    found = paired_bootstrap(outputs, outputs, references)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_the_samples_are_the_same_at_every_call() -> None:
    references, first = corpus(0.3, 1)
    _, second = corpus(0.25, 2)
    assert paired_bootstrap(first, second, references) == paired_bootstrap(first, second, references)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match="2 .*second.* 1 "):
        paired_bootstrap(["a"], ["a", "b"], ["a"])
    with pytest.raises(UserError, match="outputs.*first"):
        paired_bootstrap([], [], [])
    with pytest.raises(UserError, match="'exact_match'.*bleu, bleu_tokenized, chrf"):
        paired_bootstrap(["a"], ["a"], ["a"], "exact_match")
