"""Counted randomness: every random number is a function of a key, never of what was drawn before it.

A key names a place, such as (seed, step, micro-batch, site). Resuming a run is then a counter, and a sentence's
numbers do not depend on its neighbours. The numbers come from NumPy's Philox, a counter-based generator whose
streams NumPy keeps stable across versions.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

LEVELS = 1 << 16  # dropout rates are rounded to 1/65536; the scale uses the rounded rate, so nothing is biased


@dataclass(frozen=True)
class Key:
    """A place in the tree of random numbers; `fold` names a place below it."""

    seed: int
    path: tuple[int | str, ...] = ()

    def fold(self, *names: int | str) -> "Key":
        return Key(self.seed, self.path + names)

    def philox(self) -> np.random.Philox:
        """The generator of this place, at its beginning."""
        digest = blake2b(repr((self.seed, *self.path)).encode(), digest_size=16).digest()
        return np.random.Philox(key=np.frombuffer(digest, "<u8"))

    def generator(self) -> np.random.Generator:
        """For shuffles and draws that happen once."""
        return np.random.Generator(self.philox())

    def word(self) -> int:
        """One 64-bit number, to seed generators of other libraries."""
        return int(self.philox().random_raw())


def dropped(key: Key, rate: float, count: int) -> tuple[NDArray[np.bool_], float]:
    """Which of `count` elements stay, and what to scale those by so that the expectation is kept."""
    if not 0.0 <= rate < 1.0:
        raise UserError(f"dropout rate {rate} is outside [0, 1); try 0.1")
    threshold = round(rate * LEVELS)
    draws = key.philox().random_raw(-(-count // 4)).view(np.uint16)[:count]
    return draws >= threshold, LEVELS / (LEVELS - threshold)


def uniforms(key: Key, rows: NDArray[np.int64], column: int) -> NDArray[np.float64]:
    """One number in [0, 1) for each row, a function of (key, row, column) alone; any rows, in any order.

    Each of the three is mixed in between rounds of splitmix64, so that neighbouring rows are unrelated.
    """
    with np.errstate(over="ignore"):
        mixed = _mix(rows.astype(np.uint64) + np.uint64(key.word()))
        mixed = _mix(mixed + np.uint64(column))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of splitmix64 [Steele+ 2014]."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
