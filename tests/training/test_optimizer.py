"""The optimizer beside PyTorch's own, and a whole run beside a loop that takes no short cut."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import kernels, site
from regard.attention.site import Site
from regard.data.tokenizer import PADDING
from regard.exchange import folders
from regard.rng import Key
from regard.tasks.config import TrainConfig
from regard.tasks.registry import read_recipe
from regard.training.distributed import ALONE, LostRankError, World
from regard.training.optimizer import Optimizer, orthogonal
from regard.training.run import Run
from tests.test_rng import plain_philox
from tests.training.toy import write_recipe


def like_pytorch(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """PyTorch's Muon and AdamW, none of it fused, for the same parameters."""
    matrices = [m.weight for m in model.modules() if isinstance(m, nn.Linear)] if config.optimizer == "muon" else []
    rest = [p for p in model.parameters() if all(p is not m for m in matrices)]
    decay = config.weight_decay
    adam = torch.optim.AdamW(rest, lr=config.lr, betas=config.betas, eps=1e-9, weight_decay=decay, foreach=False)
    if not matrices:
        return [adam]
    return [adam, torch.optim.Muon(matrices, lr=config.lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw")]


@pytest.mark.parametrize("shape", [(3, 5, 9), (2, 12, 4), (1, 7, 7)])
def test_orthogonal_matrices_keep_directions_and_forget_sizes(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    inner = u.mT @ orthogonal(x) @ v.mT
    sizes = inner.diagonal(dim1=1, dim2=2)
    assert sizes.min() > 0.6
    assert sizes.max() < 1.3
    torch.testing.assert_close(inner, torch.diag_embed(sizes), rtol=0, atol=1e-9)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_steps_are_those_of_pytorch(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Muon rounds to bfloat16 within; without that, ours goes the same way."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())
    config = TrainConfig(steps=1, optimizer=optimizer, lr=0.02, weight_decay=0.1)  # type: ignore[arg-type]
    ours, theirs = (
        nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 8), nn.Linear(8, 6), nn.Linear(6, 8)).double() for _ in range(2)
    )
    theirs.load_state_dict(ours.state_dict())
    mine, others = Optimizer(ours, config), like_pytorch(theirs, config)
    torch.manual_seed(1)
    for _ in range(10):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        mine.move(0.02, ALONE)
        for other in others:
            other.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9, msg=name)


class Lost(World):
    def summed(self, parts: object) -> list[torch.Tensor]:
        raise LostRankError("gone")


def test_if_another_process_is_lost_nothing_has_moved() -> None:
    """The leading one then saves what it has, as the last whole step."""
    model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 8))
    optimizer = Optimizer(model, TrainConfig(steps=1))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.move(0.02, ALONE)
    before = copy.deepcopy((model.state_dict(), [*optimizer.state.values()]))
    with pytest.raises(LostRankError):
        optimizer.move(0.02, Lost())
    after = (model.state_dict(), [*optimizer.state.values()])
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_a_run_loses_what_a_plain_loop_loses(optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64: the loop of `regard train` beside attention by the reference kernel, dropout by its plain twin, all
    logits at once, PyTorch's cross-entropy, clipping and optimizers."""
    recipe = read_recipe(write_recipe(tmp_path, optimizer=optimizer, lr=5e-3, clip=0.5))
    torch.set_default_dtype(torch.float64)
    try:
        run = Run(recipe, tmp_path, folders)
        task: Any = run.task
        trainer, twin = (run.trainer() for _ in range(2))
        ours = [trainer.update(trainer.weights, step).loss for step in range(50)]
        monkeypatch.setattr(kernels, "_choose", lambda *_: "reference")
        monkeypatch.setattr(site, "dropped", plain_dropped)
        monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())
        model = twin.weights.model
        optimizers = like_pytorch(model, recipe.train)
        plain = []
        for step in range(50):
            (name,) = twin._names(step)
            batch, at = task.load(name), Site(key=Key(recipe.train.seed, ("step", step, 0)))
            x, _ = model.advance(batch.target.tokens[:, :-1], model.encode(batch.source, at), at)  # type: ignore[operator]
            logits, wanted = model.head(x).flatten(0, 1), batch.target.tokens[:, 1:].flatten()  # type: ignore[operator]
            loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, label_smoothing=0.1)
            model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.train.clip)
            for each in optimizers:
                each.step()
            plain.append(float(loss.detach()))
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-8)
    assert plain[-1] < plain[0] - 0.5


def plain_dropped(key: Key, rate: float, count: int) -> tuple[np.ndarray, float]:
    threshold = round(rate * 65536)
    return (plain_philox(key, count) >= threshold).numpy(), 65536 / (65536 - threshold)
