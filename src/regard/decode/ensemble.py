"""Several models that speak as one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decode.stepper import State, Step, Stepper
from regard.errors import UserError
from regard.shapes import Padded


@dataclass(frozen=True, eq=False)
class EnsembleState:
    """The members' states, row for row."""

    members: tuple[State, ...]

    def select(self, index: Tensor) -> "EnsembleState":
        return EnsembleState(tuple(state.select(index) for state in self.members))


class Ensemble:
    """The mean of the members' probabilities, as log-mean-exp of their log-probabilities; itself a Stepper."""

    def __init__(self, members: Sequence[Stepper[Any]]) -> None:
        if not members:
            raise UserError("an ensemble of no models; give at least one")
        marks = {(member.start, member.end) for member in members}
        if len(marks) > 1:
            raise UserError(f"ensemble members differ in (start, end): {sorted(marks)}; give them one vocabulary")
        self.members = list(members)
        self.start, self.end = marks.pop()
        ends = [longest for member in members if (longest := getattr(member, "longest", None)) is not None]
        self.longest = min(ends, default=None)

    def begin(self, batch: Any, prefix: Padded | None = None) -> EnsembleState:
        return EnsembleState(tuple(member.begin(batch, prefix) for member in self.members))

    def step(self, tokens: Tensor, state: EnsembleState) -> Step[EnsembleState]:
        said = [member.step(tokens, own) for member, own in zip(self.members, state.members, strict=True)]
        sizes = {step.log_probs.shape[-1] for step in said}
        if len(sizes) > 1:
            raise UserError(f"ensemble members have vocabularies of {sorted(sizes)}; they must share one")
        stacked = torch.stack([step.log_probs for step in said])
        log_probs = stacked.logsumexp(0) - math.log(len(said))
        return Step(log_probs, EnsembleState(tuple(step.state for step in said)))
