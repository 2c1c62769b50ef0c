"""A softmax over some words stands for the one over all."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import UserError
from regard.nn.embed import OutputHead, word_table
from regard.nn.loss import SomeWords
from regard.rng import Key
from regard.tasks.lm.config import LanguageTrainConfig

WORDS, WIDTH, ROWS = 60, 6, 9


def made() -> tuple[np.ndarray, OutputHead, torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(4)
    ids = np.minimum(draw.zipf(1.4, 4000), WORDS) - 1
    torch.manual_seed(1)
    head = OutputHead(word_table(WORDS, WIDTH), bias=True)
    x, wanted = 3 * torch.randn(ROWS, WIDTH), torch.from_numpy(draw.choice(ids, ROWS))
    return ids, head.double(), x.double(), wanted


@torch.no_grad()
def test_the_sum_over_some_words_is_in_expectation_that_over_all() -> None:
    """exp(lost) is the sum over words by the right one's part; of one word in the batch, so that all else is drawn."""
    ids, head, x, wanted = made()
    some, logits = SomeWords(ids, WORDS, 12), head(x[:1])
    for word in (wanted[:1], torch.tensor([WORDS - 2])):
        truth = float(F.cross_entropy(logits, word).exp())
        found = torch.stack([some.lost(head, x[:1], word, Key(number)).exp() for number in range(6000)])
        error = float(found.std()) / len(found) ** 0.5
        assert abs(float(found.mean()) - truth) < 4 * error < 0.1 * truth
        assert float(found.std()) > 0.05 * truth, "draws that matter to nobody would prove little"


def test_enough_draws_lose_what_all_words_lose_and_teach_the_same() -> None:
    ids, head, x, wanted = made()
    full = F.cross_entropy(head(x), wanted, reduction="sum")
    whole = torch.autograd.grad(full, head.table)[0]
    lost = SomeWords(ids, WORDS, 200_000).lost(head, x, wanted, Key(3))
    assert float(lost.detach()) == pytest.approx(float(full.detach()), rel=1e-6)
    assert float((torch.autograd.grad(lost, head.table)[0] - whole).abs().max()) < 1e-5
    again = [SomeWords(ids, WORDS, 5).lost(head, x, wanted, Key(seed)) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]
    left = torch.autograd.grad(again[0], head.table)[0].abs().sum(1) == 0
    assert left.sum() > WORDS / 3
    assert not left[wanted].any()


def test_no_negative_number_of_words() -> None:
    with pytest.raises(UserError, match="sampled_softmax -1"):
        LanguageTrainConfig(steps=1, sampled_softmax=-1)
