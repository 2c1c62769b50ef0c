"""ELMo: each direction by PyTorch's own layers, what no state may see, and the mix of layers."""

from typing import Any

import pytest
import torch
from tests.contracts.family import MEMBERS, Member, members
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.build import initialise
from regard.models.config import ElmoConfig
from regard.models.elmo import Mix
from regard.rng import Key
from regard.shapes import Padded


def some_tokens(rows: int = 4) -> Tensor:
    return torch.randint(3, 11, (rows, 9), generator=torch.Generator().manual_seed(3))


def by_hand(layers: Any, x: Tensor) -> list[Tensor]:
    """From left to right, one of PyTorch's LSTMs above the other, the second with a residual."""
    found = list[Tensor]()
    for layer in layers:
        one = nn.LSTM(6, 6, batch_first=True).double()
        one.load_state_dict(layer.layers[0].state_dict())
        y = one(x)[0]
        x = x + y if found else y
        found.append(x)
    return found


@torch.no_grad()
def test_states_are_those_of_an_lstm_for_each_direction() -> None:
    model, tokens = MEMBERS["encoders/elmo-equal-widths"].build().double(), some_tokens()
    texts = Padded(tokens, torch.full((4,), 9))
    words = model.embedding.table[tokens]
    forth, back = by_hand(model.forth, words), [x.flip(1) for x in by_hand(model.back, words.flip(1))]
    found = model.layers(texts)
    for layer, one, other in zip(found, [words, *forth], [words, *back], strict=True):
        assert torch.allclose(layer, torch.cat((one, other), -1), atol=1e-12)
    assert torch.allclose(model(texts), sum(found) / 3, atol=1e-12)
    for state, wanted in zip(model.both(texts), (forth[-1], back[-1]), strict=True):
        assert torch.allclose(state, wanted, atol=1e-12)


@members(lambda member: isinstance(member.config, ElmoConfig))
@torch.no_grad()
def test_no_state_has_seen_the_word_that_it_has_to_tell(member: Member) -> None:
    model, tokens = member.build().double(), some_tokens(1)
    lengths, t = torch.tensor([9]), 4
    changed = tokens.clone()
    changed[0, t] = 3 + (tokens[0, t] - 2) % 8
    before, after = (model.both(Padded(each, lengths)) for each in (tokens, changed))
    same = [(model.head(a) == model.head(b)).all(-1)[0].tolist() for a, b in zip(before, after, strict=True)]
    # Forth, the step before a word tells it, and back, the step after it.
    assert same[0] == [True] * t + [False] * (9 - t)
    assert same[1] == [False] * (t + 1) + [True] * (9 - t - 1)


def test_a_mix_begins_as_the_mean_and_may_become_any_one_layer() -> None:
    layers = list(torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    mix = Mix(3).double()
    initialise(mix, Key(0))
    assert torch.allclose(mix(layers), sum(layers) / 3, atol=1e-12)
    mix.scores.data, mix.weight.data = torch.tensor([0.0, 1.0, 2.0]).double(), torch.tensor(0.5).double()
    e = torch.e
    wanted = 0.5 * (layers[0] + e * layers[1] + e * e * layers[2]) / (1 + e + e * e)
    assert torch.allclose(mix(layers), wanted, atol=1e-12)
    mix(layers).square().sum().backward()
    assert all(p.grad is not None and p.grad.all() for p in mix.parameters())


@pytest.mark.parametrize("wrong", [{"embedding": 0}, {"width": 0}, {"num_layers": 0}, {"dropout": 1.0}])
def test_shapes_that_hold_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        ElmoConfig(**wrong)
