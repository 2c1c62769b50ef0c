"""One thread a worker: two workers share two cores."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _calm() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
