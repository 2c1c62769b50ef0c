"""Word alignments: Pharaoh's notation, links read off attention weights, and the error rate against gold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

Links = frozenset[tuple[int, int]]  # of a source and a target word, counted from 0
Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Gold:
    """What people linked: surely, and at least possibly."""

    sure: Links
    possible: Links


def parse(line: str, where: str) -> Gold:
    """`0-0 1-2` as Pharaoh wrote it; `1p2` is a link that is only possible."""
    sure, possible = set(), set()
    for part in line.split():
        link = re.fullmatch(r"(\d{1,6})([-p])(\d{1,6})", part)
        if link is None:
            raise UserError(f"{where}: {part!r} is no link; write source-target, counted from 0, such as 0-0 1-2")
        possible.add((int(link[1]), int(link[3])))
        sure |= {(int(link[1]), int(link[3]))} if link[2] == "-" else set()
    return Gold(frozenset(sure), frozenset(possible))


def pharaoh(links: Links) -> str:
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read(weights: Weights, cover: bool) -> NDArray[np.bool_]:
    """Which words are linked, (..., T, S): each target word to the source word that it looks at most.

    With cover, a source word that none has taken then goes to the target word that looks at it most.
    """
    taken = (weights == weights.max(-1, keepdims=True)) & (weights > 0)
    if not cover:
        return taken
    most = (weights == weights.max(-2, keepdims=True)) & (weights > 0)
    return taken | (most & ~taken.any(-2, keepdims=True))


def links(weights: Weights, cover: bool) -> Links:
    """The same as pairs, for one map (T, S)."""
    return frozenset((int(s), int(t)) for t, s in np.argwhere(read(weights, cover)))


def error_rates(maps: Sequence[Weights], gold: Sequence[Gold]) -> Weights:
    """Alignment error rate [Och+ 2003, eq. 8] by head: maps (H, T, S) of sentences -> (H, without and with cover)."""
    if len(maps) != len(gold):
        raise UserError(f"{len(maps)} sentences and {len(gold)} lines of links; give one for each")
    right = np.zeros((len(maps[0]), 2))
    links_in_all = right.copy()
    for number, (weights, wanted) in enumerate(zip(maps, gold, strict=True), 1):
        marked = [_matrix(which, weights.shape[1:], number) for which in (wanted.sure, wanted.possible)]
        for cover in (False, True):
            found = read(weights, cover)
            right[:, int(cover)] += sum((found & these).sum((1, 2)) for these in marked)
            links_in_all[:, int(cover)] += found.sum((1, 2)) + len(wanted.sure)
    return 1 - right / links_in_all


def _matrix(links: Links, shape: tuple[int, ...], number: int) -> NDArray[np.bool_]:
    matrix = np.zeros(shape, dtype=bool)
    for source, target in links:
        if source >= shape[1] or target >= shape[0]:
            words = f"{shape[1]} source and {shape[0]} target words"
            raise UserError(f"line {number} of the links: {source}-{target} of {words}; count words from 0")
        matrix[target, source] = True
    return matrix
