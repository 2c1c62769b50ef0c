from __future__ import annotations

import time

import pytest
import torch
from tests.contracts.family import CONFIGS

from regard.decode.config import Beam, Greedy, Sample, Search
from regard.decode.filters import Halt
from regard.engine.torch import TorchEngine, _side_by_side
from regard.models.build import build

SEARCHES: dict[str, Search] = {"greedy": Greedy(max_length=9), "beam": Beam(size=3, max_length=9)}
SEARCHES["sample"] = Sample(max_length=9, seed=3)
TEXTS = [[4 + (i * j) % 5 for j in range(1 + i % 7)] for i in range(40)]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", ["preset-transformer_tiny", "preset-recurrent_bahdanau"])
def test_batches_side_by_side_say_the_same(name: str, search: Search) -> None:
    model = build(CONFIGS[name])
    ticks: list[int] = []
    alone = TorchEngine(model, batch_size=40).decode(TEXTS, search)
    threads = torch.get_num_threads()
    engine = TorchEngine(model, threads=3)
    engine.tokens = 64
    several = engine.decode(TEXTS, search, tick=ticks.append)
    assert [[h.tokens for h in best] for best in several] == [[h.tokens for h in best] for best in alone]
    assert ticks[-1] == len(TEXTS)
    assert ticks == sorted(ticks)
    assert len(ticks) > 3
    assert torch.get_num_threads() == threads


def test_what_is_left_early_is_halted() -> None:
    halt, ended = Halt(), []

    def work(number: int) -> None:
        try:
            while True:
                halt.apply(torch.zeros(1, 1), torch.zeros(1, 0))
                time.sleep(0.01)
        finally:
            ended.append(number)

    def interrupted() -> None:
        with _side_by_side(2, halt) as do:
            do(work, range(5))
            time.sleep(0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sorted(ended) == [0, 1]
