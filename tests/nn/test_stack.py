"""Blocks of any parts: what mixes steps may be other than attention, and parts may have losses of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Mask, Site
from regard.nn.config import StackConfig
from regard.nn.parts import FeedForward, Residual
from regard.nn.stack import Block, Stack
from regard.rng import Key
from regard.tasks.task import Loss

CONFIG = StackConfig(width=8, hidden=12, num_heads=2, placement="pre")


@dataclass(frozen=True, eq=False)
class Sums:
    """Of the steps so far."""

    sums: Tensor  # (B, S, C)

    @property
    def num_keys(self) -> int:
        return self.sums.shape[1]

    def append(self, newer: Sums) -> Sums:
        return newer if not self.num_keys else Sums(torch.cat((self.sums, self.sums[:, -1:] + newer.sums), 1))

    def select(self, index: Tensor) -> Sums:
        return Sums(self.sums[index])

    def since(self, first: int) -> Sums:
        return Sums(self.sums[:, first:])


class MeanSoFar(nn.Module):
    """The mean of all steps up to each: a mixer with a state."""

    def project_kv(self, keys_from: Tensor, values_from: Any = None, positions: Any = None, mask: Any = None) -> Sums:
        return Sums(keys_from.cumsum(1))

    def forward(self, x: Tensor, memory: Sums, *, mask: Mask, places: Any, site: Site) -> Tensor:
        site.add_loss(x.square().mean())
        counts = torch.arange(1, memory.num_keys + 1, dtype=x.dtype)[:, None]
        return (memory.sums / counts)[:, -x.shape[1] :]


def stack() -> Stack:
    trunk = Stack(CONFIG, 2)
    residual = partial(Residual, 8, "layer", 1e-5, "pre", 0.0)
    trunk.blocks[1] = Block(MeanSoFar(), FeedForward(8, 12, "relu"), residual)
    return trunk.double()


def test_a_block_takes_whatever_mixes_steps_and_grows_with_its_cache() -> None:
    trunk, x = stack(), torch.randn(2, 5, 8, dtype=torch.float64)
    whole = trunk(x, mask=Mask.causal()).x
    past = trunk.nothing_yet(2)
    for t in range(5):
        stepped = trunk(x[:, t : t + 1], mask=Mask.causal(), past=past)
        past = stepped.past.select(torch.tensor([0, 1]))
        assert torch.allclose(stepped.x[:, 0], whole[:, t], atol=1e-12)


def test_a_part_leaves_its_loss_at_the_site_of_the_pass() -> None:
    trunk, x = stack(), torch.randn(2, 5, 8, dtype=torch.float64)
    site = Site(Key(0), losses={})
    trunk(x, mask=Mask.causal(), site=site / "decoder")
    assert site.losses is not None
    assert list(site.losses) == ["decoder.1.self"]
    loss = Loss.of(site, torch.tensor(3.0), 10.0)
    assert torch.allclose(loss.total.double(), 3.0 + 10 * site.losses["decoder.1.self"])
    trunk(x, mask=Mask.causal(), site=Site())  # without: nothing is kept
    assert Loss.of(Site(), torch.tensor(3.0), 10.0).total == 3.0


def test_values_may_come_from_another_tensor_than_keys() -> None:
    attention = Stack(CONFIG, 1).blocks[0].self_attention
    keys, values, x = (torch.randn(2, n, 8) for n in (5, 5, 3))
    both = attention.project_kv(keys, values)
    assert torch.equal(both.k, attention.project_kv(keys).k)
    assert torch.equal(both.v, attention.project_kv(values).v)
    assert attention(x, both).shape == x.shape


def test_a_recipe_names_the_kernel() -> None:
    x = torch.randn(2, 5, 8)
    outs = []
    for kernel in ("reference", "fused", "chunked"):
        torch.manual_seed(0)
        outs.append(Stack(StackConfig(**{**vars(CONFIG), "kernel": kernel}), 2)(x, mask=Mask.causal()).x)
    assert torch.allclose(outs[0], outs[1], atol=1e-5)
    assert torch.allclose(outs[0], outs[2], atol=1e-5)
