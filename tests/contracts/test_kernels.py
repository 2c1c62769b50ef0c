"""Contract 1: every exact kernel equals `reference`, output and gradient, wherever it does not refuse.
Contract 2: what is masked cannot matter."""

import itertools

import pytest
import torch
from torch import Tensor

from regard.attention import Mask, MultiheadAttention, attend, attend_with_weights
from regard.attention.config import AttentionConfig
from regard.attention.kernels import KERNELS
from regard.attention.mask import Grid
from regard.attention.position import layer_position, steps
from regard.attention.score import SCORES
from regard.errors import RefusalError, UserError
from tests.contracts.family import MASK_NAMES, POSITIONS, make_score, mask_samples

B, H, D, E = 2, 4, 6, 6
SIZES = {"T=S": (5, 5), "T<S": (3, 5), "T>S": (7, 5)}
FAST = [name for name in KERNELS if name != "reference"]
CAN = [
    (kernel, score)
    for kernel, score in itertools.product(KERNELS, SCORES)
    if kernel != "fused" or make_score(score, D, D).scale(D) is not None
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny tensors must still be cut into several chunks."""
    monkeypatch.setattr(KERNELS["chunked"], "rows", 2)
    monkeypatch.setattr(KERNELS["chunked"], "columns", 2)


def inputs(num_queries: int, num_keys: int, groups: int) -> list[Tensor]:
    shapes = (B, H, num_queries, D), (B, groups, num_keys, D), (B, groups, num_keys, E)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def same_with_gradients(one: Tensor, other: Tensor, leaves: list[Tensor]) -> None:
    probe = torch.randn_like(one)
    grads = [torch.autograd.grad((x * probe).sum(), leaves, allow_unused=True) for x in (one, other)]
    assert torch.isfinite(one).all()
    assert torch.allclose(one, other, atol=1e-12)
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mask_name", MASK_NAMES)
@pytest.mark.parametrize("score_name", SCORES)
@pytest.mark.parametrize("kernel", FAST)
def test_exact_kernels_equal_reference(kernel: str, score_name: str, mask_name: str, size: str, groups: int) -> None:
    num_queries, num_keys = SIZES[size]
    q, k, v = inputs(num_queries, num_keys, groups)
    score, mask = make_score(score_name, D, D), mask_samples(B, H, num_queries, num_keys)[mask_name]
    bias = torch.randn(1, H, num_queries, num_keys, dtype=torch.float64, requires_grad=True)

    def run(name: str) -> Tensor:
        return attend(q, k, v, score=score, mask=mask, bias=bias, kernel=name)

    seated = any(word in mask_name for word in ("segments", "globals", "permutation"))
    if size == "T>S" and seated:
        with pytest.raises(UserError, match=f"{num_queries} queries.*{num_keys} keys"):
            run("reference")
        return
    if (kernel, score_name) not in CAN:
        with pytest.raises(RefusalError, match=f"'{kernel}'.*{type(score).__name__}"):
            run(kernel)
        return
    fast = run(kernel)
    same_with_gradients(fast, run("reference"), [q, k, v, bias, *score.parameters()])


@pytest.mark.parametrize("groups", [4, 1])
@pytest.mark.parametrize("mask_name", ["none", "causal", "causal & padding", "causal, shifted", "nothing"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kernel", FAST)
def test_exact_kernels_equal_reference_under_every_position(
    kernel: str, position: str, mask_name: str, groups: int
) -> None:
    x = torch.randn(B, 5, 16, dtype=torch.float64, requires_grad=True)
    starts = torch.arange(B) if "shifted" in mask_name else None
    outs, parameters = [], []
    for name in (kernel, "reference"):
        torch.manual_seed(3)
        config = AttentionConfig(width=16, num_heads=4, num_kv_heads=groups, kernel=name)
        layer = MultiheadAttention(config, layer_position(POSITIONS[position], 4, 4, 0)).double()
        memory = layer.project_kv(x, positions=steps(5, 5, starts, x.device)[0])
        mask = mask_samples(B, H, 3, 5)[mask_name]
        if (name, position) == ("fused", "shaw"):
            with pytest.raises(RefusalError, match="'fused'.*weights"):
                layer(x[:, 2:], memory, mask=mask, places=steps(3, 5, starts, x.device))
            return
        outs.append(layer(x[:, 2:], memory, mask=mask, places=steps(3, 5, starts, x.device)))
        parameters.append(list(layer.parameters()))
    probe = torch.randn_like(outs[0])
    grads = [
        torch.autograd.grad((out * probe).sum(), [x, *own], allow_unused=True)
        for out, own in zip(outs, parameters, strict=True)
    ]
    assert torch.allclose(*outs, atol=1e-12)
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("mask_name", MASK_NAMES)
@pytest.mark.parametrize(("kernel", "score_name"), CAN)
def test_a_masked_position_cannot_matter(kernel: str, score_name: str, mask_name: str) -> None:
    num_queries, num_keys = 3, 5
    q, k, v = inputs(num_queries, num_keys, H)
    score, mask = make_score(score_name, D, D), mask_samples(B, H, num_queries, num_keys)[mask_name]
    matrix = mask.allowed(Grid.whole(num_queries, num_keys))
    allowed = torch.ones(B, H, num_queries, num_keys, dtype=torch.bool) if matrix is None else matrix
    allowed = allowed.expand(B, H, num_queries, num_keys)
    out = attend(q, k, v, score=score, mask=mask, kernel=kernel)
    assert not out[~allowed.any(-1)].any(), "a query with nothing to attend to yields zeros"
    for t in range(num_queries):  # of all sentences and heads at once, which do not see one another
        hidden = ~allowed[:, :, t]  # (B, H, S)
        for x, gradient in zip((k, v), torch.autograd.grad(out[:, :, t].sum(), (k, v), retain_graph=True), strict=True):
            assert not gradient[hidden].any(), "the gradient of a masked position is exactly 0"
            other = x.detach() + 1e3 * hidden[..., None]
            moved = attend(q, *((other, v) if x is k else (k, other)), score=score, mask=mask, kernel=kernel)
            assert torch.allclose(moved[:, :, t], out[:, :, t], rtol=0, atol=1e-13)


@pytest.mark.parametrize("mask_name", MASK_NAMES)
@pytest.mark.parametrize("score_name", SCORES)
def test_weights_are_a_distribution_and_recompute_the_output(score_name: str, mask_name: str) -> None:
    q, k, v = inputs(3, 5, H)
    score, mask = make_score(score_name, D, D), mask_samples(B, H, 3, 5)[mask_name]
    attended = attend_with_weights(q, k, v, score=score, mask=mask)
    sums = attended.weights.sum(-1)
    matrix = mask.allowed(Grid.whole(3, 5))
    wanted = torch.ones_like(sums) if matrix is None else matrix.any(-1).expand_as(sums).double()
    assert torch.allclose(sums, wanted, atol=1e-12)
    assert torch.allclose(attended.weights @ v, attend(q, k, v, score=score, mask=mask), atol=1e-12)


@pytest.mark.parametrize("score_name", [name for name in SCORES if name in ("bilinear", "additive", "mlp")])
@pytest.mark.parametrize("kernel", KERNELS)
def test_learned_scores_let_queries_and_keys_differ_in_width(kernel: str, score_name: str) -> None:
    q, k = torch.randn(2, 4, 3, 6).double(), torch.randn(2, 4, 5, 7).double()
    v = torch.randn(2, 4, 5, 6).double()
    score = make_score(score_name, 6, 7)
    if kernel == "fused" and score_name != "bilinear":
        with pytest.raises(RefusalError, match=f"'{kernel}'.*{type(score).__name__}"):
            attend(q, k, v, score=score, kernel=kernel)
        return
    out = attend(q, k, v, score=score, kernel=kernel)
    assert torch.allclose(out, attend(q, k, v, score=score, kernel="reference"))
    prepared = attend(q, score.keys(k), v, score=score, kernel=kernel, prepared=True)
    assert torch.equal(out, prepared), "key-side work can be done once and kept"


def test_mask_default_allows_everything() -> None:
    assert Mask().allowed(Grid.whole(3, 5)) is None
