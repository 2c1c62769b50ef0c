import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from regard import recipe as recipes
from regard.models.build import build
from regard.models.config import RecurrentConfig
from regard.tasks.config import TrainConfig
from regard.tasks.translation.config import TranslationRecipe as Recipe
from regard.tasks.translation.prepare import store_for, tokenizers_for
from regard.tasks.translation.task import Translation
from regard.training import plan
from tests.training.toy import write_recipe


@pytest.mark.parametrize(
    ("minutes", "evaluation", "evaluations", "steps"),
    [
        (10.0, 29.0, 2, 5240),  # 582 seconds after the reserve, 10 % of which hold two evaluations of 29
        (10.0, 1.0, 20, 5620),  # all that were asked for
        (0.1, 60.0, 1, 1),  # one there must be, however long it takes
    ],
)
def test_minutes_hold_updates_and_evaluations(
    minutes: float, evaluation: float, evaluations: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates: list[int] = []
    monkeypatch.setattr("time.perf_counter", lambda: 0.1 * len(updates))
    monkeypatch.setattr(plan, "try_largest", lambda task, model: None)
    monkeypatch.setattr(plan, "count_flops", lambda task, model: [0.0] * 8)
    config = TrainConfig(minutes=minutes)
    made = plan.make_plan(None, nn.Linear(2, 3), config, updates.append, lambda: evaluation)  # type: ignore[arg-type]
    assert (made.evaluations, made.steps) == (evaluations, steps)
    assert made.parameters == 9


aten = torch.ops.aten
FUSED = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda g, q, k, v, *_, **__: sdpa_backward_flop_count(
        g, q, k, v
    ),
}


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_the_work_of_all_batches_follows_from_that_of_a_few(kind: str, tmp_path: Path) -> None:
    """Against PyTorch's counter on every batch of an epoch; the recurrent encoder skips padding, attention does not."""
    recipe = recipes.read(Recipe, write_recipe(tmp_path))
    tokenizers = tokenizers_for(recipe.data, tmp_path)
    store, _ = store_for(recipe.data, tokenizers, tmp_path)
    recipe = replace(recipe, train=replace(recipe.train, batch_tokens=40))
    task = Translation(tokenizers, store, [], recipe)
    config = recipe.model if kind == "transformer" else RecurrentConfig(embedding=16, width=12, tied="all")
    model = build(config.sized(*tokenizers.sizes))
    coefficients = plan.count_flops(task, model)
    told = counted = 0.0
    for name in task.batches(0, 0):
        counting, plain = (
            FlopCounterMode(display=False, custom_mapping=FUSED),
            torch.backends.mkldnn.flags(enabled=False),
        )
        with counting as counter, warnings.catch_warnings(action="ignore"), plain:
            task.loss(model, task.load(name), None, None).total.backward()
        counted += counter.get_total_flops()
        told += sum(a * b for a, b in zip(coefficients, task.shape(name).terms, strict=True))
    assert told == pytest.approx(counted, rel=1e-6)
