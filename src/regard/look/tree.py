"""The beam as a tree: every hypothesis that a search kept, and those that it ended with."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.decode.config import Search
from regard.decode.stepper import State, Step, Stepper
from regard.engine.torch import TorchEngine
from regard.shapes import Padded


@dataclass(frozen=True)
class Node:
    """A word after others; `score` if the output ended with it."""

    parent: int
    token: int
    log_prob: float
    score: float | None = None
    best: bool = False


@dataclass
class Tree:
    """Nodes by number; -1 is before the first word."""

    nodes: list[Node] = field(default_factory=list)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, parent: int, token: int, log_prob: float) -> int:
        number = self.numbers.setdefault((parent, token), len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(Node(parent, token, log_prob))
        return number


@dataclass(frozen=True, eq=False)
class Climbed:
    """A state, and where in the tree each of its rows stands."""

    state: State
    places: list[int]
    log_probs: Tensor | None  # of the next words, and of all before them

    def select(self, index: Tensor) -> "Climbed":
        places = [self.places[i] for i in index.tolist()]
        return Climbed(self.state.select(index), places, None if self.log_probs is None else self.log_probs[index])


class Climber:
    """A Stepper that notes which words it is given."""

    def __init__(self, stepper: Stepper[Any], tree: Tree) -> None:
        self.stepper, self.tree, self.start, self.end = stepper, tree, stepper.start, stepper.end
        self.prompted, self.longest = getattr(stepper, "prompted", False), getattr(stepper, "longest", None)

    def begin(self, batch: Any, prefix: Padded | None = None) -> Climbed:
        return Climbed(self.stepper.begin(batch, prefix), [-1] * len(batch), None)

    def step(self, tokens: Tensor, state: Climbed) -> Step[Climbed]:
        places, before = state.places, torch.zeros(1, 1)
        if state.log_probs is not None:
            said = state.log_probs.gather(1, tokens[:, None])[:, 0]
            rows = zip(state.places, tokens.tolist(), said.tolist(), strict=True)
            places, before = [self.tree.add(*row) for row in rows], said[:, None]
        step = self.stepper.step(tokens, state.state)
        return Step(step.log_probs, Climbed(step.state, places, step.log_probs.double() + before))


def climb(stepper: Stepper[Any], source: Sequence[int], search: Search) -> Tree:
    """The tree of the search for one source, or after one prompt."""
    tree = Tree()
    (hypotheses,) = TorchEngine(Climber(stepper, tree)).decode([source], search)
    for rank, hypothesis in enumerate(hypotheses):  # what the search ended with, best first
        at = -1
        for token in hypothesis.tokens:
            at = tree.add(at, token, hypothesis.log_prob)
            tree.nodes[at] = replace(tree.nodes[at], best=tree.nodes[at].best or rank == 0)
        tree.nodes[at] = replace(tree.nodes[at], score=hypothesis.score)
    return tree
