"""One contender, in a process of its own, that trains when it is told to and is idle otherwise.

    python -m bench.training.worker CONTENDER SHAPE THREADS [--keep-memory] [--rank R --processes P --meeting FILE]

Says how many parameters it has, then answers lines: "go N" by seconds, tokens and losses of N updates; "flops" by what
an update costs for each target token. Ends with its input.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from bench.training.shapes import SHAPES
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

PRODUCT = 2048  # rows and columns by which the machine's peak is measured


@dataclass(frozen=True)
class Contender:
    """A model, and an update of it: from its number to its mean loss, and how many target tokens that was."""

    model: nn.Module
    update: Callable[[int], tuple[float, int]]


def peak() -> Contender:
    """A matrix product is an update, a floating-point operation a token."""
    a, b, out = (torch.rand(PRODUCT, PRODUCT) for _ in range(3))

    def update(step: int) -> tuple[float, int]:
        torch.mm(a, b, out=out)
        return 0.0, 2 * PRODUCT**3

    return Contender(nn.Identity(), update)


def keep_memory() -> None:
    """As `regard train` does for itself."""
    library = ctypes.CDLL(None)
    library.mallopt(-3, 1 << 30)
    library.mallopt(-1, (1 << 31) - 1)


def make(asked: argparse.Namespace) -> Contender:
    if asked.contender == "peak":
        return peak()
    shape = SHAPES[asked.shape]
    if asked.contender == "Regard":
        from bench.training.ours import regard

        return regard(shape, asked.rank, asked.processes, asked.meeting)
    from bench.training.rivals import RIVALS

    return RIVALS[asked.contender](shape)


def flops(contender: Contender) -> float:
    """For each target token; the mode does not see into MKL-DNN's LSTM, so that is off."""
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        _, tokens = contender.update(0)
    return counter.get_total_flops() / tokens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("contender")
    parser.add_argument("shape")
    parser.add_argument("threads", type=int)
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--meeting", default="")
    asked = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer

    def answer(**what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    if asked.keep_memory:
        keep_memory()
    contender, step = make(asked), 0
    answer(parameters=sum(p.numel() for p in contender.model.parameters() if p.requires_grad))
    for line in sys.stdin:
        if line.strip() == "flops":
            answer(flops=flops(contender))
            continue
        count, began = int(line.removeprefix("go ")), time.perf_counter()
        done = [contender.update(step + i) for i in range(count)]
        seconds = time.perf_counter() - began
        step += count
        answer(seconds=seconds, tokens=sum(tokens for _, tokens in done), losses=[loss for loss, _ in done])


if __name__ == "__main__":
    main()
