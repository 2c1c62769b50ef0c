"""Contract 4: every model builds, trains a few steps, gives every parameter a gradient, saves, loads, says the same."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file

from regard.attention import Site
from regard.models.build import build
from regard.models.presets import PRESETS
from regard.models.transformer import Transformer
from regard.nn.lora import state_of
from regard.rng import Key
from tests.contracts.family import CONFIGS, Member, members

UNFELT = "to_k.bias"  # softmax takes away what it adds to all scores


@members()
def test_trains_saves_loads_and_says_the_same(member: Member, tmp_path: Path) -> None:
    model, inputs, config = member.build(), member.inputs, member.config
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    before = member.loss(model, inputs).item()
    for step in range(6):
        optimizer.zero_grad()
        member.loss(model, inputs, Site(key=Key(0, (step,)))).backward()
        for name, parameter in model.named_parameters():
            assert (parameter.grad is not None) == parameter.requires_grad, name
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
        optimizer.step()
    assert member.loss(model, inputs).item() < before
    # A row of a word table that no sentence used has no gradient; every other parameter moves.
    moving = [(name, p) for name, p in model.named_parameters() if p.requires_grad and not name.endswith(UNFELT)]
    assert not [name for name, p in moving if not p.grad.any()]
    held = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert all(name.startswith(("trunk.head.", "trunk.readout.")) for name in held), "that no answer depends on"

    save_file(state_of(model), tmp_path / "model.safetensors")
    kind = TypeAdapter(type(config))
    again = type(member)(kind.validate_json(kind.dump_json(config))).build(seed=1)
    assert again.config == config
    saved = load_file(tmp_path / "model.safetensors")
    assert saved.keys() == state_of(again).keys()
    again.load_state_dict(saved, strict=False)  # of tied tables one is saved
    assert torch.equal(member.forward(model, inputs), member.forward(again, inputs))


def rates(config: Any) -> list[str]:
    return [field.name for field in fields(config) if field.name.endswith("dropout")]


def still(config: Any) -> Any:
    """Without any dropout."""
    trunk = {"trunk": still(config.trunk)} if hasattr(config, "trunk") else {}
    return replace(config, **dict.fromkeys(rates(config), 0.0), **trunk)


def one_rate_each(config: Any) -> Iterator[Any]:
    """With one dropout rate alone, for each that there is."""
    yield from (replace(still(config), **{rate: 0.3}) for rate in rates(config))
    if hasattr(config, "trunk"):
        yield from (replace(still(config), trunk=trunk) for trunk in one_rate_each(config.trunk))


@members()
@torch.no_grad()
def test_dropout_is_a_function_of_its_key(member: Member) -> None:
    for config in one_rate_each(member.config):
        member = type(member)(config)
        model, inputs = member.build(), member.inputs
        one, again, other = (member.forward(model, inputs, Site(key=Key(0, (step,)))) for step in (1, 1, 2))
        assert torch.equal(one, again), config
        assert not torch.allclose(one, other), config
        assert not torch.allclose(one, member.forward(model, inputs)), config


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    config = CONFIGS["preset-transformer_tiny"]
    one, two, other = build(config, 1), build(config, 1), build(config, 2)
    for a, b, c in zip(one.parameters(), two.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.dim() == 1 or not torch.equal(a, c)


@pytest.mark.parametrize(("name", "millions"), [("transformer_base", 65), ("transformer_big", 213)])
def test_presets_have_the_published_size(name: str, millions: float) -> None:
    """[Vaswani+ 2017, table 3]; "about 37000" words, so within 3 %."""
    config = replace(PRESETS[name]().sized(37000, 37000), tied="all")
    with torch.device("meta"):
        model = Transformer(config)  # type: ignore[arg-type]
    counted = sum(p.numel() for p in model.parameters()) / 1e6
    assert counted == pytest.approx(millions, rel=0.03)
