import pytest
import torch
from torch.nn import functional as F

from regard.nn import loss
from regard.nn.embed import OutputHead


def parts(bias: bool, dtype: torch.dtype = torch.float64) -> tuple[OutputHead, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    table = torch.nn.Parameter(torch.randn(11, 6, dtype=dtype, generator=draw))
    head = OutputHead(table, bias=bias).to(dtype)
    if head.bias is not None:
        head.bias.data.copy_(torch.randn(11, dtype=dtype, generator=draw))
    x = torch.randn(7, 6, dtype=dtype, generator=draw).requires_grad_()
    return head, x, torch.randint(11, (7,), generator=draw)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("held", [11, 33, 1000])  # one row at once, three (the last chunk has one), all
def test_chunks_give_what_pytorch_gives_and_its_gradient(
    bias: bool, smoothing: float, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "HELD", held)
    head, x, wanted = parts(bias)
    inputs = [x, *head.parameters()]
    plain = F.cross_entropy(head(x), wanted, label_smoothing=smoothing, reduction="sum")
    ours = loss.cross_entropy(head, x, wanted, smoothing)
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)
    # A factor of 3 shows that what comes from above is passed on.
    for a, b in zip(torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * plain, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_what_is_lost_on_each_word_adds_up_and_needs_no_gradient() -> None:
    head, x, wanted = parts(True)
    plain = F.cross_entropy(head(x), wanted, label_smoothing=0.1, reduction="none")
    torch.testing.assert_close(loss.lost(head, x, wanted, 0.1), plain.detach(), rtol=0, atol=1e-12)
    with torch.no_grad():
        assert loss.cross_entropy(head, x, wanted, 0.1) == loss.lost(head, x, wanted, 0.1).sum()


def test_words_that_seem_impossible_cost_a_finite_number() -> None:
    head, x, wanted = parts(False, torch.float32)
    far = (1000 * x).detach().requires_grad_()
    total = loss.cross_entropy(head, far, wanted)
    total.backward()
    assert far.grad is not None
    torch.testing.assert_close(total, F.cross_entropy(head(far), wanted, reduction="sum"))
    assert far.grad.isfinite().all()


def test_no_words_cost_nothing() -> None:
    head, x, wanted = parts(False)
    assert loss.cross_entropy(head, x[:0], wanted[:0]) == 0
    assert len(loss.lost(head, x[:0], wanted[:0])) == 0
