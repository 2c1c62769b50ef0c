"""Links and their error rate, by hand."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.metrics.alignment import error_rates, links, parse, pharaoh

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.1, 0.5, 0.4]])  # two target words look at three source words


def test_links_are_read_off_by_the_share_of_the_most() -> None:
    assert pharaoh(links(WEIGHTS, 1.0)) == "0-0 1-1"
    assert pharaoh(links(WEIGHTS, 0.5)) == "0-0 1-1 2-1"
    assert pharaoh(links(WEIGHTS, 0.1)) == "0-0 0-1 1-0 1-1 2-1"


def test_a_word_that_looks_nowhere_is_linked_to_nothing() -> None:
    assert links(np.zeros((1, 2)), 0.5) == frozenset()


def test_the_error_rate_is_the_paper_s() -> None:
    """Sure 0-0 and 1-1, possible 2-1 besides. All three found: 1 - (2 + 3) / (3 + 2) = 0; the first two alone: 0 too;
    with all five of the lowest share: 1 - (2 + 3) / (5 + 2)."""
    gold = parse("0-0 1-1 2p1", "gold")
    assert gold.sure < gold.possible
    np.testing.assert_allclose(error_rates([WEIGHTS[None]], [gold], [1.0, 0.5, 0.1]), [[0, 0, 1 - 5 / 7]])


def test_sentences_are_added_up_before_they_are_divided() -> None:
    """A found 2 of 2 with 2 sure, then 1 of 2 with 3 sure: 1 - 2 * 3 / (4 + 5)."""
    gold = [parse("0-0 1-1", "gold"), parse("0-0 2-0 2-1", "gold")]
    np.testing.assert_allclose(error_rates([WEIGHTS[None]] * 2, gold, [1.0]), [[1 - 6 / 9]])


@pytest.mark.parametrize("line", ["0:0", "1-", "a-b", "1-1,2-2", "-1-2", "1234567-0"])
def test_what_is_no_link_is_told(line: str) -> None:
    with pytest.raises(UserError, match="gold, line 3: .* is no link"):
        parse(line, "gold, line 3")


def test_links_outside_the_sentence_are_told() -> None:
    with pytest.raises(UserError, match="line 1 of the links: 3-0, where there are 3 source and 2 target words"):
        error_rates([WEIGHTS[None]], [parse("3-0", "gold")])
