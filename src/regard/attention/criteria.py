"""The lectures' criteria of a position encoding, computed for each kind rather than asserted."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.config import ABSOLUTE, PositionConfig
from regard.attention.encoding import ENCODINGS
from regard.attention.position import layer_position, steps
from regard.errors import UserError

WIDTH, HEADS, SHORT, LONG = 32, 4, 24, 96
CLOSE = 1e-6  # float64 sines are good to 1e-15; learned tables are float32


@dataclass(frozen=True)
class Criteria:
    """What holds for a kind of position, over sentences of several lengths."""

    unique: bool
    """No two steps of a sentence look alike."""
    consistent_distance: bool
    """How far apart two steps look depends on how many steps lie between, not on where, nor on the length."""
    bounded: bool
    """Values do not grow with the sentence."""
    extends: bool
    """It exists for sentences longer than those it was made for."""
    deterministic: bool
    """A step has the same encoding whatever the sentence's length."""


def criteria(config: PositionConfig) -> Criteria:
    """Looks at every pair of steps in sentences of different length, the way attention would."""
    views = {n: view(config, n) for n in (SHORT // 2, SHORT - 1, SHORT)}
    try:
        longer = view(config, LONG)
    except UserError:
        longer = None
    short = views[SHORT]
    spans = [(v - v.diagonal(dim1=0, dim2=1).T[:, None]).norm(dim=-1) for v in views.values()]
    per_offset = {
        offset: torch.cat([span.diagonal(offset) for span in spans]) for offset in range(1 - SHORT // 2, SHORT // 2)
    }
    apart = (short[:, :, None] - short[:, None]).norm(dim=-1) + torch.eye(SHORT)
    return Criteria(
        unique=bool((apart > CLOSE).all()),
        consistent_distance=all(bool(x.max() - x.min() < CLOSE) for x in per_offset.values()),
        bounded=longer is None or bool(longer.abs().max() < 1.5 * short.abs().max()),
        extends=longer is not None,
        deterministic=all(torch.allclose(v, short[: len(v), : len(v)], atol=CLOSE) for v in views.values()),
    )


@torch.no_grad()
def view(config: PositionConfig, length: int) -> Tensor:
    """How step j appears from step i, apart from any word: (length, length, width).

    For encodings, their difference; for relative kinds, what they do to a fixed query and key at i and j, with both
    sides in sight (under a causal mask ALiBi, which knows no left and right, would be unique).
    """
    queries, keys = steps(length, length, None, torch.device("cpu"))
    with torch.random.fork_rng(devices=()):  # learned kinds are looked at as they are initialised
        torch.manual_seed(0)
        if config.kind in ABSOLUTE:
            vectors = ENCODINGS[config.kind](config, WIDTH)(queries, torch.tensor([length]))[0].double()
            return vectors[None] - vectors[:, None]
        position = layer_position(config, WIDTH // HEADS, HEADS, 0).double()
        q, k = torch.randn(2, 1, HEADS, 1, WIDTH // HEADS, dtype=torch.float64).expand(-1, -1, -1, length, -1)
    scores = position.queries(q, queries) @ position.keys(k, keys).transpose(-1, -2)
    bias = position.bias(q, queries, keys)
    return (scores if bias is None else scores + bias.scores())[0].permute(1, 2, 0)
