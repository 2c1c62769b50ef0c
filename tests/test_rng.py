from hashlib import blake2b

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.rng import Key, dropped, uniforms


def test_keys_are_places_not_histories() -> None:
    assert Key(1).fold("a", 2) == Key(1, ("a", 2))
    assert Key(1).fold("a").word() == Key(1, ("a",)).word()
    words = {Key(seed).fold(*path).word() for seed in (0, 1, -1) for path in ((), ("1",), (1,), (1, 1), (11,))}
    assert len(words) == 15, "no two places share numbers; 1 is not '1'"


def test_streams_stay_as_they_are() -> None:
    """A stored run resumes only if these never change."""
    assert Key(7, ("step", 3)).word() == 3890635964992279247
    assert uniforms(Key(7), np.array([0, 1]), 0).tolist() == [0.6220022616522901, 0.24938478768974937]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_keeps_the_expectation(rate: float) -> None:
    count = 1_000_000
    stays, scale = dropped(Key(3), rate, count)
    assert stays.mean() == pytest.approx(1 - rate, abs=5 * np.sqrt(0.25 / count) + 1e-5)
    assert (1 - round(rate * 65536) / 65536) * scale == pytest.approx(1.0, abs=1e-12)
    assert stays.shape == (count,)


def test_masks_of_neighbouring_places_steps_and_elements_are_independent() -> None:
    """Correlations of a million pairs have a standard error of 0.001; five of those bound each."""
    count = 1_000_000
    base = dropped(Key(3).fold("step", 1, "encoder.0"), 0.3, count)[0].astype(float)
    others = {
        "next step": dropped(Key(3).fold("step", 2, "encoder.0"), 0.3, count)[0],
        "next site": dropped(Key(3).fold("step", 1, "encoder.1"), 0.3, count)[0],
        "next seed": dropped(Key(4).fold("step", 1, "encoder.0"), 0.3, count)[0],
        "next element": np.roll(base, 1),
        "next word": np.roll(base, 4),
        "next row": np.roll(base, 512),
    }
    for name, other in others.items():
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.005, name


@pytest.mark.parametrize("count", [1, 3, 4, 5, 17])
def test_any_count_can_be_drawn_and_a_shorter_one_is_its_beginning(count: int) -> None:
    assert np.array_equal(dropped(Key(3), 0.5, count)[0], dropped(Key(3), 0.5, 100)[0][:count])


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_rates_outside_the_unit_interval_are_refused(rate: float) -> None:
    with pytest.raises(UserError, match=f"dropout.* {rate} "):
        dropped(Key(1), rate, 4)


def test_uniforms_are_uniform_and_belong_to_their_row() -> None:
    rows = np.arange(200_000)
    numbers = uniforms(Key(1), rows, 5)
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 60, "chi-square of 19 degrees; 60 is beyond 1 in 100,000"
    assert np.array_equal(uniforms(Key(1), rows[[7, 3]], 5), numbers[[7, 3]])
    for other in (uniforms(Key(1), rows, 6), uniforms(Key(2), rows, 5), np.roll(numbers, 1)):
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.012


def plain_philox(key: Key, count: int) -> torch.Tensor:
    """Philox 4x64-10 [Salmon+ 2011, section 3.3] in plain torch, a counter in a row of its own; (count,) of 16 bits."""
    low, blocks = 0xFFFFFFFF, -(-count // 16)

    def signed(x: int) -> int:
        return x - (1 << 64) if x >> 63 else x

    def high(a: torch.Tensor, b: int) -> torch.Tensor:  # the upper half of the 128 bits of a product
        (a1, a0), (b1, b0) = ((a >> 32) & low, a & low), (b >> 32, b & low)
        cross = a1 * b0 + ((a0 * b0 >> 32) & low)
        rest = a0 * b1 + (cross & low)
        return a1 * b1 + ((cross >> 32) & low) + ((rest >> 32) & low)

    digest = blake2b(repr((key.seed, *key.path)).encode(), digest_size=16).digest()
    k = [int.from_bytes(digest[i : i + 8], "little") for i in (0, 8)]
    c = [torch.arange(1, blocks + 1), *(torch.zeros(blocks, dtype=torch.int64) for _ in range(3))]
    for _ in range(10):
        m0, m1 = 0xD2E7470EE14C6C93, 0xCA5A826395121157
        c = [
            high(c[2], m1) ^ c[1] ^ signed(k[0]), c[2] * signed(m1),
            high(c[0], m0) ^ c[3] ^ signed(k[1]), c[0] * signed(m0),
        ]  # fmt: skip
        k = [(k[0] + 0x9E3779B97F4A7C15) % (1 << 64), (k[1] + 0xBB67AE8584CAA73B) % (1 << 64)]
    words = torch.stack(c, 1).flatten()
    return torch.stack([(words >> shift) & 0xFFFF for shift in (0, 16, 32, 48)], 1).flatten()[:count]


@pytest.mark.parametrize("count", [1, 5, 64, 4099])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_masks_equal_their_plain_torch_twin_bit_for_bit(count: int, rate: float) -> None:
    key = Key(5, ("step", 17, "encoder.0.self"))
    stays, _ = dropped(key, rate, count)
    assert stays.tolist() == (plain_philox(key, count) >= round(rate * 65536)).tolist()
