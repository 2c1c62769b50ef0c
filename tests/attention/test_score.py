"""The lectures' score functions, term by term, and their worked example."""

import pytest
import torch

from regard.attention import attend_with_weights
from regard.attention.score import MLP, SCORES, Additive, Bilinear, Dot, ScaledDot, Score
from regard.errors import UserError

Q, K, D, W = 3, 4, 5, 6


def pairs(score: Score, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return score.pairs(score.queries(q[None, None]), score.keys(k[None, None]))[0, 0]


def test_the_lecture_s_example_divides_112_and_96_by_8() -> None:
    """Scores 112 and 96 for keys of width 64 become 14 and 12, and after softmax 0.88 and 0.12."""
    q = torch.zeros(1, 1, 1, 64)
    q[..., 0] = 1.0
    k = torch.zeros(1, 1, 2, 64)
    k[0, 0, :, 0] = torch.tensor([112.0, 96.0])
    v = torch.eye(2, 64)[None, None]
    assert Dot().pairs(q, k).flatten().tolist() == [112.0, 96.0]
    assert ScaledDot().pairs(q, k).flatten().tolist() == [14.0, 12.0]
    attended = attend_with_weights(q, k, v)
    assert [round(x, 2) for x in attended.weights.flatten().tolist()] == [0.88, 0.12]
    assert [round(x, 2) for x in attended.out.flatten()[:2].tolist()] == [0.88, 0.12]


def test_dot_is_the_inner_product() -> None:
    q, k = torch.randn(Q, D), torch.randn(K, D)
    for i in range(Q):
        for j in range(K):
            assert pairs(Dot(), q, k)[i, j] == pytest.approx(float(k[j] @ q[i]), abs=1e-6)
            assert pairs(ScaledDot(), q, k)[i, j] == pytest.approx(float(k[j] @ q[i]) / D**0.5, abs=1e-6)


def test_bilinear_is_q_w_k() -> None:
    q, k, score = torch.randn(Q, D), torch.randn(K, W), Bilinear(D, W)
    matrix = score.to_query_space.weight
    for i in range(Q):
        for j in range(K):
            assert pairs(score, q, k)[i, j].item() == pytest.approx((q[i] @ matrix @ k[j]).item(), abs=1e-5)


def test_additive_is_v_tanh_of_one_matrix_on_both() -> None:
    """v tanh(W [k; q]) of one deck is v tanh(Wq q + Wk k) of the other."""
    q, k, score = torch.randn(Q, D), torch.randn(K, W), Additive(D, W, (7,))
    both = torch.cat((score.from_key.weight, score.from_query.weight), 1)
    assert score.from_query.bias is None
    for i in range(Q):
        for j in range(K):
            wanted = score.to_score.weight[0] @ torch.tanh(both @ torch.cat((k[j], q[i])))
            assert pairs(score, q, k)[i, j].item() == pytest.approx(wanted.item(), abs=1e-5)


@pytest.mark.parametrize("hidden", [(7,), (7, 4), (7, 4, 3)])
def test_mlp_is_a_network_on_the_concatenation(hidden: tuple[int, ...]) -> None:
    q, k, score = torch.randn(Q, D), torch.randn(K, W), MLP(D, W, hidden)
    first = torch.nn.Linear(D + W, hidden[0])
    first.weight.data = torch.cat((score.from_query.weight, score.from_key.weight), 1)
    first.bias.data = score.from_query.bias.data
    layers = [first, *score.layers]
    for i in range(Q):
        for j in range(K):
            x = torch.cat((q[i], k[j]))
            for layer in layers:
                x = torch.tanh(layer(x))
            assert pairs(score, q, k)[i, j].item() == pytest.approx(score.to_score(x).item(), abs=1e-5)


def test_hidden_widths_default_to_the_query_s() -> None:
    assert SCORES["additive"](D, W, ()).to_score.weight.shape == (1, D)  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"additive.*\(3, 4\).*mlp"):
        SCORES["additive"](D, W, (3, 4))


def test_widths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="ScaledDot.*queries.* 5 .*keys.* 6"):
        ScaledDot().check(5, 6)
    with pytest.raises(UserError, match=r"Bilinear.*queries.* 5 .*keys.* 6\b.* 5 .* 5"):
        Bilinear(5, 6).check(5, 5)
