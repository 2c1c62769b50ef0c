"""What a model would say of a series of 200 steps, in three tokens."""

import torch

from regard.data.axes import Text, Times
from regard.engine.explain import Explanation
from regard.look.look import Look

STEPS = 200


def series() -> Look:
    """Maps across, and of the series to itself, whose weights are all alike."""
    maps = {
        "decoder.cross": torch.full((2, 3, STEPS), 1 / STEPS),
        "encoder.self": torch.full((1, STEPS, STEPS), 1 / STEPS),
    }
    axes = {"decoder.cross": ("target", "source"), "encoder.self": ("source", "source")}
    told = Explanation(torch.zeros(STEPS, 4).numpy(), [7, 8, 2], torch.zeros(3), [], maps, axes)
    words, taken = Text(["▁rai", "ny", "</s>"], [0, 0, 1]), Text(["<start>", "▁rai", "ny"], [-1, 0, 0])
    return Look(told, {"source": Times(STEPS, 0.5, "h"), "target": words, "taken": taken}, lambda ids: ["?"] * len(ids))
