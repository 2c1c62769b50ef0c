import pytest
import torch

from regard.attention import Mask, attend
from regard.attention.config import ABSOLUTE, PositionConfig, PositionKind, alibi_slopes
from regard.attention.criteria import Criteria, criteria
from regard.attention.encoding import ENCODINGS, Sinusoid
from regard.attention.position import RELATIVE, Alibi, Rotary, Shaw, layer_position, steps
from regard.errors import UserError

CPU = torch.device("cpu")


def config(kind: PositionKind) -> PositionConfig:
    return PositionConfig(kind=kind, max_length=32 if kind == "learned" else None)


def test_sinusoids_are_the_paper_s_formula() -> None:
    vectors = Sinusoid(8)(torch.arange(50)[None])[0]
    for pos in (0, 1, 7, 49):
        for i in range(4):
            angle = torch.tensor(pos / 10000 ** (2 * i / 8), dtype=torch.float64)
            assert vectors[pos, 2 * i] == pytest.approx(angle.sin().item(), abs=1e-12)
            assert vectors[pos, 2 * i + 1] == pytest.approx(angle.cos().item(), abs=1e-12)


def test_halves_hold_the_same_numbers_in_another_order() -> None:
    positions = torch.arange(20)[None]
    by_turns, halves = Sinusoid(8)(positions), Sinusoid(8, "halves")(positions)
    assert torch.equal(halves, torch.cat((by_turns[..., 0::2], by_turns[..., 1::2]), -1))


@pytest.mark.parametrize("shift", [0, 1, 5, 1000, -3])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_a_sinusoid_s_shift_is_one_matrix_for_every_step(layout: str, shift: int) -> None:
    encoding = Sinusoid(16, layout)
    matrix, here = encoding.shift(shift), torch.arange(3, 60)[None]
    assert torch.allclose(encoding(here)[0] @ matrix.T, encoding(here + shift)[0], atol=1e-9)
    assert torch.allclose(matrix @ matrix.T, torch.eye(16, dtype=torch.float64), atol=1e-12), "a rotation"


def test_every_kind_meets_the_lecture_s_criteria_as_computed() -> None:
    """Order: unique, consistent distance, bounded, extends, deterministic. The decks' columns for index and fraction
    (which join 'bounded' and 'extends' in one) are index: yes yes no yes, fraction: yes no yes no."""
    computed = {kind: criteria(config(kind)) for kind in ("none", *ENCODINGS, *RELATIVE)}  # type: ignore[arg-type]
    assert computed == {
        "none": Criteria(False, True, True, True, True),
        "sinusoid": Criteria(True, True, True, True, True),
        "learned": Criteria(True, False, True, False, True),
        "index": Criteria(True, True, False, True, True),
        "fraction": Criteria(True, False, True, True, False),
        "shaw": Criteria(False, True, True, True, True),  # beyond its clip all steps look alike
        "rotary": Criteria(True, True, True, True, True),
        "alibi": Criteria(False, True, False, True, True),  # left and right look alike
    }
    wide = PositionConfig(kind="shaw", clip=24)
    assert criteria(wide).unique, "with a clip as wide as the sentence it is unique"
    assert {*ABSOLUTE} == {*ENCODINGS}


def test_criteria_leave_the_random_state_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    criteria(config("learned"))
    assert torch.equal(before, torch.get_rng_state())


def test_shaw_is_the_paper_s_sum_over_relative_vectors() -> None:
    """Equations 3 and 4, with loops: keys k_j + a_ij, values v_j + b_ij."""
    T, D, clip = 5, 6, 2
    q, k, v = torch.randn(3, 1, 1, T, D, dtype=torch.float64)
    shaw = Shaw(D, clip).double()
    queries, keys = steps(T, T, None, CPU)
    weights = torch.empty(T, T, dtype=torch.float64)
    wanted = torch.zeros(T, D, dtype=torch.float64)
    for i in range(T):
        apart = [max(-clip, min(clip, j - i)) + clip for j in range(T)]
        weights[i] = torch.stack(
            [q[0, 0, i] @ (k[0, 0, j] + shaw.key_table[apart[j]]) / D**0.5 for j in range(T)]
        ).softmax(0)
        wanted[i] = sum(weights[i, j] * (v[0, 0, j] + shaw.value_table[apart[j]]) for j in range(T))  # type: ignore[assignment]
    out = attend(q, k, v, bias=shaw.bias(q, queries, keys))
    assert torch.allclose(out[0, 0], wanted, atol=1e-12)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_rotary_scores_depend_on_distance_alone(layout: str) -> None:
    rotary = Rotary(8, layout, 10000.0)
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    near, far = (torch.tensor([[n]]) for n in (3, 103))
    one = rotary.queries(q, near) @ rotary.keys(k, near + 4).transpose(-1, -2)
    other = rotary.queries(q, far) @ rotary.keys(k, far + 4).transpose(-1, -2)
    assert torch.allclose(one, other, atol=1e-10)
    assert torch.allclose(rotary.queries(q, far).norm(), q.norm())


def test_alibi_slopes_are_the_paper_s() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(4).tolist() == [2.0 ** (-2 * i) for i in range(1, 5)]
    assert len(set(alibi_slopes(12).tolist())) == 12
    bias = Alibi(2).bias(torch.zeros(1, 2, 1, 4), *steps(1, 3, None, CPU)).scores()
    assert bias[0, 0, 0].tolist() == [-2 * 2.0**-4, -(2.0**-4), 0.0]


def test_a_learned_table_says_what_to_do_past_its_end() -> None:
    encoding = ENCODINGS["learned"](config("learned"), 8)
    assert encoding(torch.arange(32)[None], None).shape == (1, 32, 8)
    with pytest.raises(UserError, match="33 .*32 .*max_length 33"):
        encoding(torch.arange(33)[None], None)


def test_positions_in_projections_belong_to_the_first_layer() -> None:
    placed = PositionConfig(place="projections")
    x = torch.zeros(1, 2, 3, 8)
    first, second = (layer_position(placed, 8, 2, layer) for layer in (0, 1))
    where = torch.arange(3)[None]
    assert torch.equal(first.queries(x, where)[0, 0].double(), Sinusoid(8)(where)[0].float().double())
    assert torch.equal(first.values(x, where), first.keys(x, where))
    assert torch.equal(second.queries(x, where), x)


def test_queries_sit_at_the_last_keys_and_count_from_their_start() -> None:
    queries, keys = steps(2, 5, torch.tensor([0, 3]), CPU)
    assert keys.tolist() == [[0, 1, 2, 3, 4], [-3, -2, -1, 0, 1]]
    assert queries.tolist() == [[3, 4], [0, 1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "learned"}, "position learned.*max_length None"),
        ({"kind": "rotary", "max_length": 5}, "position rotary.*max_length 5"),
        ({"kind": "learned", "max_length": 0}, "max_length 0 .* 1 .*1,048,576"),
        ({"kind": "alibi", "place": "projections"}, "position alibi.*'place'"),
        ({"kind": "shaw", "clip": 0}, "clip 0.* 1"),
        ({"base": 1.0}, r"base 1\.0.*10000"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PositionConfig(**settings)  # type: ignore[arg-type]


def test_odd_widths_cannot_hold_pairs() -> None:
    with pytest.raises(UserError, match="width 7 .* 8"):
        Sinusoid(7)
    with pytest.raises(UserError, match="head width 5 .* 6"):
        Rotary(5, "halves", 10000.0)


def test_masks_and_positions_agree_on_who_is_last() -> None:
    allowed = Mask.causal().shifted(torch.tensor([1])).allowed
    from regard.attention.mask import Grid

    queries, keys = steps(2, 4, torch.tensor([1]), CPU)
    by_hand = (keys[:, None, :] <= queries[:, :, None]) & (keys[:, None, :] >= 0)
    assert torch.equal(allowed(Grid.whole(2, 4))[:, 0], by_hand)  # type: ignore[index]
