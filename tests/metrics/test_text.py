"""Scores against sacreBLEU's own functions, counts by hand, and a plain edit distance."""

import random

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import UserError
from regard.metrics.text import METRICS, bleu, bleu_tokenized, chrf, edits, exact_match, word_error_rate

OUTPUTS = ["The cat sat on the mat.", "A dog, they say, barked loudly!", "Nothing here matches", "It's 3.5 %."]
REFERENCES = ["The cat sat on a mat.", "A dog, they say, barked loudly.", "Everything differs there", "It is 3.5%."]


def plain_edits(first: list[str], second: list[str]) -> int:
    """The textbook's table, cell by cell."""
    table = [[i + j if not i * j else 0 for j in range(len(second) + 1)] for i in range(len(first) + 1)]
    for i in range(1, len(first) + 1):
        for j in range(1, len(second) + 1):
            change = table[i - 1][j - 1] + (first[i - 1] != second[j - 1])
            table[i][j] = min(change, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    assert bleu(OUTPUTS, REFERENCES).value == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert chrf(OUTPUTS, REFERENCES).value == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert 0 < bleu(OUTPUTS, REFERENCES).value < 100


def test_the_signature_says_how_the_score_was_made() -> None:
    version = sacrebleu.__version__
    assert bleu(OUTPUTS, REFERENCES).signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert "tok:none" in (bleu_tokenized(OUTPUTS, REFERENCES).signature or "")
    assert chrf(OUTPUTS, REFERENCES).signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert exact_match(OUTPUTS, REFERENCES).signature is None


def test_tokenized_text_is_split_at_spaces_only() -> None:
    expected = sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize="none", force=True).score
    assert bleu_tokenized(OUTPUTS, REFERENCES).value == expected
    assert expected != bleu(OUTPUTS, REFERENCES).value


def test_exact_match_counts_equal_lines() -> None:
    assert exact_match(["a", "b ", "c", "d"], ["a", "b", "c", "e"]).value == 0.5


def test_edits_counted_by_hand() -> None:
    assert edits(list("kitten"), list("sitting")) == 3
    assert edits(list("intention"), list("execution")) == 5
    assert edits([], list("abc")) == 3
    assert edits(list("abc"), []) == 3
    assert edits([], []) == 0


def test_edits_equal_the_textbook_on_random_sequences() -> None:
    draw = random.Random(3)
    for _ in range(300):
        first, second = ([draw.choice("abcd") for _ in range(draw.randrange(12))] for _ in range(2))
        assert edits(first, second) == plain_edits(first, second) == edits(second, first)


def test_error_rate_divides_all_edits_by_all_reference_tokens() -> None:
    assert word_error_rate(["a b", "c c c"], ["a x y", "c"]).value == (2 + 2) / (3 + 1)
    assert word_error_rate(["a b c"], ["x"]).value == 3.0


def test_word_error_rate_ignores_how_wide_the_spaces_are() -> None:
    assert word_error_rate(["the  cat\tsat ", ""], ["the cat sat", "on it"]).value == 2 / 5


def test_a_pronunciation_may_match_any_of_its_references() -> None:
    outputs = ["T AH M EY T OW", "R UW T", "K AE T"]
    references = [["T AH M AA T OW", "T AH M EY T OW"], ["R AW T", "R OW T S"], ["K AE T S"]]
    assert word_error_rate(outputs, references).value == (0 + 1 + 1) / (6 + 3 + 4)
    assert exact_match(outputs, references).value == 1 / 3


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_refuses_unequal_counts_and_nothing(name: str) -> None:
    metric, _ = METRICS[name]
    with pytest.raises(UserError, match="1 output.* 2 reference"):
        metric(["a"], ["a", "b"])
    with pytest.raises(UserError, match="outputs"):
        metric([], [])


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_prefers_a_perfect_output_in_its_direction(name: str) -> None:
    metric, better = METRICS[name]
    perfect, worse = metric(REFERENCES, REFERENCES), metric(OUTPUTS, REFERENCES)
    assert perfect.name == worse.name == name
    assert (perfect.value > worse.value) if better == "higher" else (perfect.value < worse.value)


def test_a_rate_over_no_tokens_and_a_word_without_pronunciation_are_mistakes() -> None:
    with pytest.raises(UserError, match="2 .*tokens"):
        word_error_rate(["a", "b"], ["", " "])
    with pytest.raises(UserError, match="item 2 of 2"):
        word_error_rate(["a", "b"], [["a"], []])


def test_several_references_are_scored_as_sacrebleu_does_and_shares_take_the_nearest() -> None:
    outputs = ["the cat sat on the mat", "a dog", "no"]
    several = [["the cat sat on a mat", "a cat sat on the mat"], ["a dog"], ["yes", "no", "no no"]]
    streams = [["the cat sat on a mat", "a dog", "yes"], ["a cat sat on the mat", None, "no"], [None, None, "no no"]]
    for name, theirs in (("bleu", BLEU()), ("chrf", CHRF())):
        assert METRICS[name][0](outputs, several).value == pytest.approx(theirs.corpus_score(outputs, streams).score)
    assert METRICS["exact_match"][0](outputs, several).value == pytest.approx(2 / 3)
    assert METRICS["word_error_rate"][0](outputs, several).value == pytest.approx(1 / 9)
    one = [[way[0]] for way in several]
    assert [METRICS[name][0](outputs, one) for name in METRICS] == [
        METRICS[name][0](outputs, [way[0] for way in several]) for name in METRICS
    ]
    with pytest.raises(UserError, match="item 2 of 2"):
        METRICS["bleu"][0](["a", "b"], [["a"], []])
