"""Low-rank changes and frozen layers: what stays stays to the bit, what was added can be merged."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Site
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import BertConfig, ElmoConfig, GptConfig, RecurrentTextConfig, TransformerConfig
from regard.models.presets import llama
from regard.nn.lora import LowRank, hold, merged_tensors, state_of
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.config import TextTrainConfig, TrainConfig
from regard.training.checkpoint import TrainState, Weights, fill_with_mean
from regard.training.distributed import ALONE
from regard.training.optimizer import Optimizer

SHAPE: dict[str, Any] = {"width": 12, "hidden": 20, "num_heads": 3, "dropout": 0.2}
MODELS: dict[str, Any] = {
    "bert": BertConfig(**SHAPE, num_layers=3, vocabulary=19),
    "gpt": GptConfig(**SHAPE, num_layers=3, vocabulary=19),
    "llama": GptConfig(
        **SHAPE, num_layers=2, vocabulary=19, num_kv_heads=1, norm="rms", placement="pre", activation="swiglu",
        bias=False, position=llama().position, tied=False,
    ),
    "additive": GptConfig(**SHAPE, num_layers=2, vocabulary=19, score="additive"),
    "transformer": TransformerConfig(
        **SHAPE, encoder_layers=2, decoder_layers=3, source_vocabulary=19, target_vocabulary=19, tied="all"
    ),
}  # fmt: skip
TOKENS = torch.randint(3, 19, (4, 7), generator=torch.Generator().manual_seed(1))
TEXTS = Padded(TOKENS, torch.tensor([7, 4, 6, 2]))


def logits(model: Any, site: Site = Site()) -> Tensor:
    """Of words, by whatever model."""
    if isinstance(model.config, BertConfig):
        return model.guess(model(TEXTS, site))
    return model(TOKENS, site) if isinstance(model.config, GptConfig) else model(TEXTS, TOKENS, site)


def trained(model: Any, steps: int = 4, **settings: Any) -> dict[str, Tensor]:
    """The weights before a few updates."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = Optimizer(model, TextTrainConfig(**{"steps": 9, "lr": 0.01, "weight_decay": 0.1, **settings}))
    for step in range(steps):
        model.zero_grad()
        F.cross_entropy(logits(model, Site(key=Key(0, (step,)))).flatten(0, 1), TOKENS.flatten()).backward()
        optimizer.move(0.01, ALONE)
    return before


def moved(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_changed_model_begins_as_the_unchanged_one(name: str) -> None:
    model = build(MODELS[name])
    plain = copy.deepcopy(model)
    hold(model, rank=2)
    changed = [part for part in model.modules() if isinstance(part, LowRank)]
    linear = [part for part in plain.modules() if isinstance(part, nn.Linear)]
    others = {"bert": 1, "additive": 2 * 3}.get(name, 0)  # what BERT has above its layers, and learned scores
    assert len(changed) == len(linear) - others
    near = 1e-5 if name == "additive" else 0.0  # whose sums go another way, as memory lies otherwise
    for site in (Site(), Site(key=Key(0, ("dropout",)))):
        assert torch.allclose(logits(model, site), logits(plain, site), atol=near, rtol=0)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("name", MODELS)
def test_low_rank_changes_alone_move(name: str, optimizer: str) -> None:
    model = build(MODELS[name])
    hold(model, rank=2)
    before = trained(model, optimizer=optimizer)
    inner = {n for n in before if n.endswith((".first", ".second"))}
    above = {n for n in before if n.startswith("guess.") or (n == "head.table" and not model.config.tied)}
    assert inner
    assert moved(model, before) == inner | above
    assert {n for n, p in model.named_parameters() if p.requires_grad} == inner | above


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_merged_they_are_a_plain_model_that_says_the_same(name: str) -> None:
    model, plain = build(MODELS[name]), build(MODELS[name], seed=7)
    hold(model, rank=2)
    with torch.enable_grad():
        trained(model)
    merged = dict(merged_tensors(model))
    assert merged.keys() == dict(plain.named_parameters()).keys()
    plain.load_state_dict(merged, strict=False)  # tied tables come once
    assert torch.allclose(logits(plain), logits(model), atol=1e-5)
    model, plain, unchanged = model.double(), plain.double(), build(MODELS[name]).double()
    merged = dict(merged_tensors(model))
    plain.load_state_dict(merged, strict=False)
    assert torch.allclose(logits(plain), logits(model), atol=1e-12)
    assert not torch.allclose(logits(unchanged), logits(model), atol=1e-3)
    for path, part in model.named_modules():
        if isinstance(part, LowRank):
            added = merged[f"{path}.weight"] - unchanged.get_parameter(f"{path}.weight")
            assert torch.linalg.matrix_rank(added, atol=1e-5) <= 2


def test_a_model_without_changes_is_merged_as_it_is() -> None:
    model = build(MODELS["gpt"])
    for name, p in merged_tensors(model):
        assert torch.equal(p, model.get_parameter(name))


@pytest.mark.parametrize("frozen", [0, 1, 2])
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_frozen_layers_and_tables_stay_to_the_bit(name: str, frozen: int) -> None:
    model = build(MODELS[name])
    hold(model, frozen=frozen)
    before = trained(model)
    lowest = tuple(f"{'encoder' if name == 'bert' else 'decoder'}.blocks.{i}." for i in range(frozen))
    still = {n for n in before if n.startswith(lowest) or (frozen and n.startswith(("embedding.", "head.table")))}
    silent = {"embedding.segment_table"} - still  # its second row is nowhere used, and weight decay moves it too
    assert moved(model, before) - silent == before.keys() - still - silent


@pytest.mark.parametrize("kind", ["recurrent_text", "elmo"])
def test_recurrent_layers_are_counted_from_below_too(kind: str) -> None:
    shape: dict[str, Any] = {"vocabulary": 19, "embedding": 4, "width": 6, "num_layers": 3}
    for frozen in range(4):
        model = build(RecurrentTextConfig(**shape) if kind == "recurrent_text" else ElmoConfig(**shape))
        hold(model, frozen=frozen)
        still = {name for name, p in model.named_parameters() if not p.requires_grad}
        stacks = ("layers.layers",) if kind == "recurrent_text" else ("forth", "back")
        lowest = tuple(f"{stack}.{i}." for stack in stacks for i in range(frozen))
        wanted = {n for n, _ in model.named_parameters() if n.startswith(lowest) or (frozen and n == "embedding.table")}
        assert still == wanted
    with pytest.raises(UserError, match=r"train\.frozen_layers 4 .*3"):
        hold(model, frozen=4)


@pytest.mark.parametrize("how", [{"frozen": 1}, {"rank": 2}], ids=["frozen", "rank"])
def test_tables_that_have_grown_move(how: dict[str, int]) -> None:
    model = build(MODELS["gpt"])
    hold(model, **how, grown=True)
    assert "embedding.table" in moved(model, trained(model))


def test_what_cannot_be_held_is_refused() -> None:
    for config in (RecurrentTextConfig(vocabulary=19, width=6), ElmoConfig(vocabulary=19, width=6)):
        with pytest.raises(UserError, match=r"train\.lora_rank .*frozen"):
            hold(build(config), rank=1)
    for name in ("bert", "gpt"):
        with pytest.raises(UserError, match=r"train\.frozen_layers 4 .*3"):
            hold(build(MODELS[name]), frozen=4)


def test_changes_begin_as_functions_of_seed_and_place() -> None:
    one, again, other = (build(MODELS["gpt"]) for _ in range(3))
    for model, seed in ((one, 3), (again, 3), (other, 4)):
        hold(model, rank=2, seed=seed)
    drawn = {name: p for name, p in one.named_parameters() if name.endswith(".first")}
    assert all(torch.equal(p, again.get_parameter(name)) for name, p in drawn.items())
    assert not any(torch.equal(p, other.get_parameter(name)) for name, p in drawn.items())
    assert len({tuple(p.flatten().tolist()) for p in drawn.values()}) == len(drawn)
    assert not any(p.any() for name, p in one.named_parameters() if name.endswith(".second"))


def test_buffers_are_part_of_the_state_unless_a_module_says_that_they_are_not(tmp_path: Path) -> None:
    def model() -> nn.Module:
        made = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        made.register_buffer("scratch", torch.ones(2), persistent=False)
        return made

    trained, config = model(), TrainConfig(steps=1, optimizer="adam")
    weights = Weights(trained, Optimizer(trained, config), None)
    trained(torch.randn(5, 2)).sum().backward()
    weights.optimizer.move(0.1, ALONE)
    weights.save(tmp_path, TrainState(step=1))
    other = model()
    Weights(other, Optimizer(other, config), None).restore(tmp_path / "step-1")
    assert state_of(other).keys() == other.state_dict().keys()
    for name, tensor in state_of(trained).items():
        assert torch.equal(state_of(other)[name], tensor), name
    fill_with_mean(mean := model(), [tmp_path / "step-1"])
    assert torch.equal(state_of(mean)["1.running_mean"], state_of(trained)["1.running_mean"])
    assert int(state_of(mean)["1.num_batches_tracked"]) == 1
