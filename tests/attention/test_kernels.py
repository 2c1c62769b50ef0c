import pytest
import torch

from regard.attention import Mask, attend, attend_with_weights
from regard.attention.kernels import KERNELS, Problem, _choose
from regard.attention.score import SCORES, ScaledDot
from regard.errors import RefusalError, UserError
from regard.rng import Key


def problem(batch: int, num_queries: int, num_keys: int, score: str = "scaled_dot") -> Problem:
    q, k = torch.empty(batch, 4, num_queries, 8), torch.empty(batch, 4, num_keys, 8)
    return Problem(q, k, k, SCORES[score](8, 8, ()), Mask(), None, 0.0, None)


def test_auto_takes_the_fused_kernel_where_it_can_and_spares_memory_where_not() -> None:
    assert _choose(problem(2, 5, 5)) == "fused"
    assert _choose(problem(2, 1, 5)) == "reference"
    assert _choose(problem(2, 5, 5, "additive")) == "reference"
    assert _choose(problem(8, 512, 2048, "additive")) == "chunked"


def test_chunked_memory_does_not_grow_with_pairs() -> None:
    """Forward and backward over 1,024 x 1,024 pairs in blocks: no tensor of all pairs is ever made."""
    sizes: list[int] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            sizes.extend(x.numel() for x in (out if isinstance(out, tuple) else (out,)) if isinstance(x, torch.Tensor))
            return out

    q, k, v = (torch.randn(1, 1, 1024, 4, requires_grad=True) for _ in "qkv")
    with Watch():
        attend(q, k, v, mask=Mask.causal(), kernel="chunked").sum().backward()
    assert max(sizes) <= 128 * 1024, "a block of queries against all keys, at most"


def test_weight_dropout_is_counted_scaled_and_only_on_the_reference() -> None:
    q, k, v = (torch.randn(2, 4, 30, 6) for _ in "qkv")
    one, again, other = (attend(q, k, v, dropout=0.5, key=Key(seed), kernel="reference") for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    mean = torch.stack([attend(q, k, v, dropout=0.5, key=Key(s)) for s in range(400)]).mean(0)
    assert torch.allclose(mean, attend(q, k, v), atol=0.2), "the expectation is kept"
    whole = attend_with_weights(q, k, v, dropout=0.5, key=Key(1)).weights
    assert torch.allclose(whole.sum(-1), torch.ones(2, 4, 30)), "weights are told before dropout"
    for kernel in ("fused", "chunked"):
        with pytest.raises(RefusalError, match=f"'{kernel}'.*kernel='auto'"):
            attend(q, k, v, dropout=0.5, key=Key(1), kernel=kernel)


def test_values_may_have_another_width() -> None:
    q, k, v = torch.randn(2, 4, 3, 6), torch.randn(2, 2, 5, 6), torch.randn(2, 2, 5, 9)
    with pytest.raises(RefusalError, match="'fused'.* 9 .* 6"):
        attend(q, k, v, kernel="fused")
    assert attend(q, k, v).shape == (2, 4, 3, 9)
    assert torch.allclose(attend(q, k, v, kernel="chunked"), attend(q, k, v), atol=1e-6)


def tensors(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return torch.randn(q), torch.randn(k), torch.randn(v)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3, 6), (2, 5, 6), (2, 5, 6)), r"4 axes.*\(2, 3, 6\)"),
        (((2, 4, 3, 6), (3, 4, 5, 6), (3, 4, 5, 6)), r"batch.*\(2, 4, 3, 6\).*\(3, 4, 5, 6\)"),
        (((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 4, 6)), r"key.*value.*\(2, 4, 5, 6\).*\(2, 4, 4, 6\)"),
        (((2, 4, 3, 6), (2, 3, 5, 6), (2, 3, 5, 6)), "4 .*heads.* 3 "),
        (((2, 4, 3, 6), (2, 4, 0, 6), (2, 4, 0, 6)), r"empty.*\(2, 4, 0, 6\)"),
        (((2, 4, 3, 6), (2, 4, 5, 7), (2, 4, 5, 6)), "queries.* 6 .*keys.* 7"),
    ],
)
def test_shapes_that_do_not_fit_are_told(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        attend(*tensors(*shapes))


def test_other_mistakes_are_told() -> None:
    q, k, v = tensors((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 5, 6))
    with pytest.raises(UserError, match="'flash'.*auto, reference, fused, chunked"):
        attend(q, k, v, kernel="flash")
    with pytest.raises(UserError, match=r"Tensor.*Mask\.matrix"):
        attend(q, k, v, mask=torch.ones(3, 5))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"dropout 0\.5 .*key=Key"):
        attend(q, k, v, dropout=0.5)
    with pytest.raises(UserError, match=r"bias.*\(3, 5\).*\(2, 4, 3, 5\)"):
        attend(q, k, v, bias=torch.zeros(3, 5))
    for kernel in KERNELS:
        with pytest.raises(UserError, match=r"mask.*\(3, 1, 1, 5\).*\(2, 4, 3, 5\)"):
            attend(q, k, v, mask=Mask.padding(torch.ones(3)), kernel=kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_bias_of_minus_infinity_forbids_and_leaves_no_nan(kernel: str) -> None:
    q, k, v = (x.requires_grad_() for x in tensors((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 5, 6)))
    bias = torch.zeros(1, 1, 3, 5)
    bias[..., 1, :] = -torch.inf
    bias[..., 2, 3:] = -torch.inf
    out = attend(q, k, v, bias=bias, kernel=kernel)
    assert not out[:, :, 1].any()
    wanted = attend(q, k, v, mask=Mask.matrix(bias[0, 0] == 0), kernel="reference")
    assert torch.allclose(out, wanted, atol=1e-6)
    for gradient in torch.autograd.grad(out.sum(), (q, k, v)):
        assert torch.isfinite(gradient).all()


def test_chunks_shrink_as_pairs_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An additive score holds a vector for each pair: fewer queries a block."""
    score = SCORES["additive"](6, 6, (7,))
    q, k, v = tensors((2, 4, 9, 6), (2, 4, 5, 6), (2, 4, 5, 6))
    seen: list[int] = []
    chunked = KERNELS["chunked"]
    monkeypatch.setattr(chunked, "numbers", 2 * 4 * 5 * 7 * 2)
    plain = score.pairs
    monkeypatch.setattr(score, "pairs", lambda q, k: seen.append(q.shape[2]) or plain(q, k))  # type: ignore[func-returns-value]
    out = attend(q, k, v, score=score, kernel="chunked")
    assert seen == [2, 2, 2, 2, 1]
    assert torch.allclose(out, attend(q, k, v, score=score, kernel="reference"), atol=1e-6)


def test_the_default_score_is_scaled_dot() -> None:
    q, k, v = tensors((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 5, 6))
    assert torch.equal(attend(q, k, v), attend(q, k, v, score=ScaledDot()))
