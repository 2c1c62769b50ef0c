import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import plan, waste
from regard.errors import UserError
from regard.rng import Key

GENERATOR = np.random.default_rng(5)
SOURCE = GENERATOR.integers(1, 30, 700)
TARGET = GENERATOR.integers(1, 40, 700)


def flat(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))),
    tokens=st.integers(1, 90),
    key=st.none() | st.integers(0, 9).map(Key),
)
def test_batches_hold_each_pair_once_and_keep_the_bound(
    lengths: list[tuple[int, int]], tokens: int, key: Key | None
) -> None:
    source, target = np.array(lengths, np.int64).reshape(-1, 2).T
    batches = plan(source, target, tokens, key)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        widest = max(source[batch].max(), target[batch].max())
        assert len(batch) == 1 or len(batch) * widest <= tokens


def test_batches_are_a_function_of_the_key() -> None:
    first = flat(plan(SOURCE, TARGET, 256, Key(1, ("epoch", 0))))
    assert first == flat(plan(SOURCE, TARGET, 256, Key(1, ("epoch", 0))))
    other = flat(plan(SOURCE, TARGET, 256, Key(1, ("epoch", 1))))
    assert first != other
    assert sorted(map(sorted, first)) != sorted(map(sorted, other)), "ties meet different neighbours"


def test_batch_order_is_shuffled_with_a_key_and_longest_first_without() -> None:
    def longest(key: Key | None) -> list[int]:
        return [int(TARGET[batch].max()) for batch in plan(SOURCE, TARGET, 256, key)]

    assert longest(None) == sorted(longest(None), reverse=True)
    shuffled = longest(Key(1))
    assert shuffled not in (sorted(shuffled), sorted(shuffled, reverse=True))
    order = np.concatenate(plan(SOURCE, TARGET, 256, None))
    expected = sorted(range(700), key=lambda i: (-TARGET[i], -SOURCE[i], i))
    assert order.tolist() == expected


def test_batches_are_full_and_waste_little() -> None:
    source = np.clip(TARGET + GENERATOR.integers(-2, 3, 700), 1, None).astype(np.int32)
    batches = plan(source, TARGET, 512, Key(2))
    assert len(batches) < 1.15 * sum(np.maximum(source, TARGET)) / 512 + 2
    assert waste(batches, TARGET) < 0.05
    mixed = np.array_split(GENERATOR.permutation(700), len(batches))
    assert waste(mixed, TARGET) > 0.3


def test_waste_is_the_share_of_padding() -> None:
    lengths = np.array([2, 4, 3, 3])
    assert waste([np.array([0, 1]), np.array([2, 3])], lengths) == pytest.approx(2 / 14)
    assert waste([], lengths) == 0.0
    assert waste([np.array([0])], np.array([0])) == 0.0


def test_batches_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match=" 0 .*4096"):
        plan(SOURCE, TARGET, 0, None)
    with pytest.raises(UserError, match="700 .*699 "):
        plan(SOURCE, TARGET[1:], 256, None)
