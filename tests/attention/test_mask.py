"""Masks against an oracle of plain Python booleans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.attention.mask import Grid, Mask
from regard.errors import UserError

B, H = 2, 1  # no mask but a matrix knows heads; the kernels' contract has such a matrix
Oracle = Callable[[int, int, int, int], bool]  # sentence, head, query index, key index -> may attend


@dataclass
class Case:
    """A mask, and what it should say; `text` shows how it was made."""

    mask: Mask
    oracle: Oracle
    text: str


@dataclass(frozen=True)
class Sizes:
    num_queries: int
    num_keys: int

    def seat(self, t: int) -> int:
        return self.num_keys - self.num_queries + t


@cache
def leaves(sizes: Sizes) -> st.SearchStrategy[Case]:
    keys = sizes.num_keys
    lengths = st.lists(st.integers(0, keys), min_size=B, max_size=B)
    rows = st.lists(st.lists(st.integers(0, 2), min_size=keys, max_size=keys), min_size=B, max_size=B)
    flags = st.lists(st.booleans(), min_size=keys, max_size=keys)
    cells = st.integers(0, 2 ** (B * sizes.num_queries * keys) - 1)
    seat = sizes.seat

    def matrix(bits: int) -> Case:
        size = B * sizes.num_queries * keys
        table = torch.tensor([bits >> i & 1 for i in range(size)]).view(B, sizes.num_queries, keys)
        return Case(Mask.matrix(table), lambda b, h, t, s: bool(table[b, t, s]), f"matrix({bits})")

    def permutation(order: list[int], sees: bool) -> Case:
        def oracle(b: int, h: int, t: int, s: int) -> bool:
            mine, its = order.index(seat(t)), order.index(s)
            return its <= mine if sees else its < mine

        return Case(Mask.permutation(torch.tensor(order), sees_itself=sees), oracle, f"permutation({order}, {sees})")

    return st.one_of(
        st.just(Case(Mask(), lambda b, h, t, s: True, "none")),
        st.just(Case(Mask.causal(), lambda b, h, t, s: s <= seat(t), "causal")),
        lengths.map(lambda n: Case(Mask.padding(torch.tensor(n)), lambda b, h, t, s: s < n[b], f"padding({n})")),
        lengths.map(
            lambda n: Case(Mask.prefix(torch.tensor(n)), lambda b, h, t, s: s < n[b] or s <= seat(t), f"prefix({n})")
        ),
        st.integers(1, keys).map(
            lambda n: Case(Mask.window(n), lambda b, h, t, s: abs(s - seat(t)) < n, f"window({n})")
        ),
        rows.map(
            lambda r: Case(
                Mask.segments(torch.tensor(r)), lambda b, h, t, s: r[b][seat(t)] == r[b][s], f"segments({r})"
            )
        ),
        flags.map(
            lambda f: Case(Mask.globals(torch.tensor(f)), lambda b, h, t, s: f[seat(t)] or f[s], f"globals({f})")
        ),
        st.tuples(st.permutations(range(keys)), st.booleans()).map(lambda p: permutation(*p)),
        cells.map(matrix),
    )


def joined(pair: tuple[Case, Case, bool]) -> Case:
    a, b, both = pair
    if both:
        return Case(a.mask & b.mask, lambda *at: a.oracle(*at) and b.oracle(*at), f"({a.text} & {b.text})")
    return Case(a.mask | b.mask, lambda *at: a.oracle(*at) or b.oracle(*at), f"({a.text} | {b.text})")


@st.composite
def compositions(draw: st.DrawFn) -> tuple[Sizes, Case]:
    num_keys = draw(st.integers(1, 5))
    sizes = Sizes(draw(st.integers(1, num_keys)), num_keys)
    case = draw(leaves(sizes))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(leaves(sizes))
        case = joined((case, other, draw(st.booleans())) if draw(st.booleans()) else (other, case, True))
    return sizes, case


@settings(max_examples=1_000, deadline=None, derandomize=True)
@given(compositions())
def test_compositions_agree_with_plain_booleans(drawn: tuple[Sizes, Case]) -> None:
    agrees(*drawn)


@pytest.mark.full
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(compositions())
def test_10_000_compositions_agree_with_plain_booleans(drawn: tuple[Sizes, Case]) -> None:
    agrees(*drawn)


def agrees(sizes: Sizes, case: Case) -> None:
    said = case.mask.allowed(Grid.whole(sizes.num_queries, sizes.num_keys))
    wanted = torch.tensor(
        [
            [
                [[case.oracle(b, h, t, s) for s in range(sizes.num_keys)] for t in range(sizes.num_queries)]
                for h in range(H)
            ]
            for b in range(B)
        ]
    )
    got = torch.ones_like(wanted) if said is None else said.expand_as(wanted)
    assert torch.equal(got, wanted), case.text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(compositions(), st.data())
def test_a_block_of_a_mask_is_the_block_of_the_whole(drawn: tuple[Sizes, Case], data: st.DataObject) -> None:
    sizes, case = drawn
    grid = Grid.whole(sizes.num_queries, sizes.num_keys)
    first, top = (data.draw(st.integers(0, sizes.num_keys - 1)), data.draw(st.integers(0, sizes.num_queries - 1)))
    rows, columns = slice(top, top + 2), slice(first, first + 2)
    whole, block = case.mask.allowed(grid), case.mask.allowed(grid.block(rows, columns))
    size = B, H, sizes.num_queries, sizes.num_keys
    full = (torch.ones(size, dtype=torch.bool) if whole is None else whole.expand(size))[..., rows, columns]
    answer = case.mask.block(grid.block(rows, columns))
    assert torch.equal(torch.tensor(True).expand_as(full) if block is None else block.expand_as(full), full)
    assert torch.equal((answer if isinstance(answer, torch.Tensor) else torch.tensor(answer)).expand_as(full), full)


def test_causal_is_aligned_bottom_right() -> None:
    allowed = Mask.causal().allowed(Grid.whole(2, 4))
    assert allowed is not None
    assert allowed[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_shifted_masks_count_from_each_sentence_s_start() -> None:
    mask = (Mask.causal() & Mask.window(2)).shifted(torch.tensor([0, 2]))
    allowed = mask.allowed(Grid.whole(4, 4))
    assert allowed is not None
    assert allowed[1, 0].int().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert Mask.causal().shifted(None).allowed(Grid.whole(4, 4)).shape[0] == 1  # type: ignore[union-attr]


def test_segments_of_queries_may_differ_from_those_of_keys() -> None:
    mask = Mask.segments(torch.tensor([[0, 0, 1]]), torch.tensor([[1, 0]]))
    assert mask.allowed(Grid.whole(2, 3)).int().tolist() == [[[[0, 0, 1], [1, 1, 0]]]]  # type: ignore[union-attr]


def test_lists_will_do() -> None:
    allowed = (Mask.padding([1, 2]) & Mask.matrix([[0, 1], [1, 1]])).allowed(Grid.whole(2, 2))
    assert allowed.int().tolist() == [[[[0, 0], [1, 0]]], [[[0, 1], [1, 1]]]]  # type: ignore[union-attr]


def test_everything_is_neutral() -> None:
    causal = Mask.causal()
    assert (Mask() & causal) is causal
    assert (causal & Mask()) is causal
    assert type(causal | Mask()) is Mask


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mask.window(0), "window.* 0 "),
        (lambda: Mask.matrix(torch.ones(3, 5)), "float32.*boolean"),
        (lambda: Mask.matrix(torch.tensor([[0, 2]])), "int64.*0/1"),
        (lambda: Mask.matrix(torch.ones(5).bool()), r" 1 .*\(5,\)"),
        (lambda: Mask.padding(torch.ones(2, 2)), r" 2 .*\(2, 2\).* 1"),
        (lambda: Mask.matrix(torch.ones(3, 4).bool()).allowed(Grid.whole(3, 5)), r"matrix.*\(3, 4\).* 3 .* 5 "),
        (lambda: Mask.segments(torch.ones(2, 4)).allowed(Grid.whole(3, 5)), "segment.* 4 .* 5"),
        (
            lambda: (Mask.padding(torch.ones(2)) & Mask.segments(torch.ones(3, 5))).allowed(Grid.whole(5, 5)),
            r"masks.*\(2, 1, 1, 5\).*\(3, 1, 5, 5\)",
        ),
    ],
)
def test_mistakes_are_told_with_a_remedy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_a_mask_prints_as_it_was_made() -> None:
    mask = Mask.causal() & (Mask.padding([3, 2]) | Mask.globals(torch.zeros(20).bool()))
    assert repr(mask) == "(Causal() & (Padding([3, 2]) | Globals(1x20)))"
    assert repr(Mask.window(4).shifted(torch.tensor([0, 1]))) == "Shifted(Window(4), [0, 1])"


def test_a_mask_moves_with_all_its_parts() -> None:
    mask = (Mask.padding([3, 2]) & Mask.segments(torch.zeros(2, 3))).shifted(torch.tensor([0, 1]))
    assert mask.allowed(Grid.whole(3, 3)) is not None
    moved = mask.to("meta")
    allowed = moved.allowed(Grid.whole(3, 3, torch.device("meta")))
    assert allowed is not None
    assert allowed.device.type == "meta"


def test_blocks_that_are_decided_by_their_place_need_no_tensor() -> None:
    mask = Mask.causal() & Mask.window(4)
    grid = Grid.whole(64, 64)
    answers = [
        [mask.block(grid.block(slice(t, t + 8), slice(s, s + 8))) for s in range(0, 64, 8)] for t in range(0, 64, 8)
    ]
    for i, row in enumerate(answers):
        for j, answer in enumerate(row):
            assert (answer is False) == (j > i or j < i - 1)
    assert Mask.causal().block(grid.block(slice(32, 40), slice(0, 8))) is True
