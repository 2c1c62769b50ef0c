"""Links and their error rate, by hand."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.metrics.alignment import error_rates, links, parse, pharaoh

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.1, 0.5, 0.4]])  # two target words look at three source words


def test_each_target_word_takes_a_source_word_and_the_rest_may_be_covered() -> None:
    assert pharaoh(links(WEIGHTS, cover=False)) == "0-0 1-1"
    assert pharaoh(links(WEIGHTS, cover=True)) == "0-0 1-1 2-1"
    assert pharaoh(links(WEIGHTS.T, cover=True)) == "0-0 1-1 1-2"


def test_a_word_that_looks_nowhere_is_linked_to_nothing() -> None:
    assert links(np.zeros((1, 2)), cover=True) == frozenset()


def test_the_error_rate_is_the_paper_s() -> None:
    """Sure 0-0 and 1-1, possible 2-1 besides. The first two found: 1 - (2 + 2) / (2 + 2) = 0; all three: 0 too. A head
    that turns the target words round finds 1-0 and 0-1, or 2-0 besides: none of them is right."""
    gold = parse("0-0 1-1 2p1", "gold")
    assert gold.sure < gold.possible
    np.testing.assert_allclose(error_rates([np.stack((WEIGHTS, WEIGHTS[::-1]))], [gold]), [[0, 0], [1, 1]])


def test_sentences_are_added_up_before_they_are_divided() -> None:
    """2 of 2 found with 2 sure, then 1 of 2 with 3 sure: 1 - 2 * 3 / (4 + 5); with cover 2 of 3, then 2 of 3."""
    gold = [parse("0-0 1-1", "gold"), parse("0-0 2-0 2-1", "gold")]
    np.testing.assert_allclose(error_rates([WEIGHTS[None]] * 2, gold), [[1 - 6 / 9, 1 - 8 / 11]])


@pytest.mark.parametrize("line", ["0:0", "1-", "a-b", "1-1,2-2", "-1-2", "1234567-0"])
def test_what_is_no_link_is_told(line: str) -> None:
    with pytest.raises(UserError, match=f"gold, line 3.*{line!r}"):
        parse(line, "gold, line 3")


def test_links_outside_the_sentence_are_told() -> None:
    with pytest.raises(UserError, match="line 1 .*3-0.* 3 source.* 2 target"):
        error_rates([WEIGHTS[None]], [parse("3-0", "gold")])
