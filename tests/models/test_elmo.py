"""ELMo: each direction by PyTorch's own layers, padding, what no state may see, and the mix of layers."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.attention import Site
from regard.errors import UserError
from regard.models.build import build, initialise
from regard.models.config import ElmoConfig
from regard.models.elmo import Mix
from regard.nn.loss import cross_entropy
from regard.rng import Key
from regard.shapes import Padded

SMALL = ElmoConfig(vocabulary=23, embedding=6, width=6)
SHAPES = {
    "lstm": SMALL,
    "projected": replace(SMALL, embedding=5, width=8, dropout=0.2),
    "gru": replace(SMALL, cell="gru", num_layers=3),
    "rnn": replace(SMALL, cell="rnn", num_layers=1, tied=False),
}


def some_texts() -> Padded:
    tokens = torch.randint(3, 23, (4, 9), generator=torch.Generator().manual_seed(3))
    return Padded(tokens, torch.tensor([9, 4, 1, 6]))


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
    model, tokens = build(SMALL).double(), some_texts().tokens
    texts = Padded(tokens, torch.full((4,), 9))
    words = model.embedding.table[tokens]
    forth, back = by_hand(model.forth, words), [x.flip(1) for x in by_hand(model.back, words.flip(1))]
    found = model.layers(texts)
    for layer, one, other in zip(found, [words, *forth], [words, *back], strict=True):
        assert torch.allclose(layer, torch.cat((one, other), -1), atol=1e-12)
    assert torch.allclose(model(texts), sum(found) / 3, atol=1e-12)
    for state, wanted in zip(model.both(texts), (forth[-1], back[-1]), strict=True):
        assert torch.allclose(state, wanted, atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_a_padded_batch_equals_its_members_alone(name: str) -> None:
    model, texts = build(SHAPES[name]).double(), some_texts()
    layers, both, vectors = model.layers(texts), model.both(texts), model(texts)
    assert len(layers) == model.config.num_layers + 1
    assert vectors.shape == layers[0].shape == (4, 9, model.config.out_width)
    for i, ids in enumerate(texts.lists()):
        one = Padded.of([ids])
        for found, alone in zip(
            (*layers, *both, vectors), (*model.layers(one), *model.both(one), model(one)), strict=True
        ):
            assert torch.allclose(found[i, : len(ids)], alone[0], atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_no_state_has_seen_the_word_that_it_has_to_tell(name: str) -> None:
    model, tokens = build(SHAPES[name]).double(), some_texts().tokens[:1]
    lengths, t = torch.tensor([9]), 4
    changed = tokens.clone()
    changed[0, t] = 3 + (tokens[0, t] - 2) % 20
    before, after = (model.both(Padded(each, lengths)) for each in (tokens, changed))
    same = [(model.head(a) == model.head(b)).all(-1)[0].tolist() for a, b in zip(before, after, strict=True)]
    # Forth, the step before a word tells it, and back, the step after it.
    assert same[0] == [True] * t + [False] * (9 - t)
    assert same[1] == [False] * (t + 1) + [True] * (9 - t - 1)


@pytest.mark.parametrize("name", SHAPES)
def test_learns_gives_every_weight_a_gradient_and_says_the_same_after_loading(name: str, tmp_path: Path) -> None:
    config = SHAPES[name]
    model, texts = build(config), Padded(some_texts().tokens, torch.full((4,), 9))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(site: Site) -> Tensor:
        forth, back = model.both(texts, site)
        told = cross_entropy(model.head, forth[:, :-1].flatten(0, 1), texts.tokens[:, 1:].flatten())
        return told + cross_entropy(model.head, back[:, 1:].flatten(0, 1), texts.tokens[:, :-1].flatten())

    before = loss(Site()).item()
    for step in range(8):
        optimizer.zero_grad()
        loss(Site(key=Key(0, (step,)))).backward()
        optimizer.step()
    assert loss(Site()).item() < before
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    if config.dropout:
        assert loss(Site(key=Key(0))).item() == loss(Site(key=Key(0))).item() != loss(Site(key=Key(1))).item()

    save_file(dict(model.named_parameters()), tmp_path / "model.safetensors")
    again = build(TypeAdapter(ElmoConfig).validate_json(TypeAdapter(ElmoConfig).dump_json(config)), seed=1)
    assert asdict(again.config) == asdict(config)
    again.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert torch.equal(model(texts), again(texts))


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
