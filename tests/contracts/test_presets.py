"""Contract 4: every model builds, trains a few steps, gives every parameter a gradient, saves, loads, says the same."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from regard.attention import Site
from regard.models.build import build
from regard.models.presets import PRESETS
from regard.models.transformer import Transformer
from regard.rng import Key
from tests.contracts.family import CONFIGS, a_source, a_target


@pytest.mark.parametrize("name", CONFIGS)
def test_trains_saves_loads_and_says_the_same(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    model, source, target = build(config), a_source(), a_target(length=5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(site: Site) -> torch.Tensor:
        logits = model(source, target[:, :-1], site)
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())

    before = loss(Site()).item()
    for step in range(6):
        optimizer.zero_grad()
        loss(Site(key=Key(0, (step,)))).backward()
        for parameter_name, parameter in model.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert torch.isfinite(parameter.grad).all(), parameter_name
        optimizer.step()
    assert loss(Site()).item() < before
    # A row of a word table that no sentence used has no gradient; every other parameter moves.
    missing = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not missing

    save_file(dict(model.named_parameters()), tmp_path / "model.safetensors")
    text = TypeAdapter(type(config)).dump_json(config)
    again = build(TypeAdapter(type(config)).validate_json(text), seed=1)
    assert asdict(again.config) == asdict(config)
    again.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert torch.equal(model(source, target), again(source, target))


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
