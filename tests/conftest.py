"""One thread a worker: two workers share two cores. Modules with much to do come first, so that none is waited for."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.train.toy import regard, write_recipe

FIRST = ()  # modules, the longest first; `make test` shows seconds


@pytest.fixture(autouse=True)
def _calm() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder by its name, which the first worker that wants it makes for all; who changes it has to copy it."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name: str, make: Callable[[Path], object]) -> Path:
        with (root / f"{name}.lock").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.fstat(lock.fileno()).st_size:
                (root / name).mkdir()
                make(root / name)
                lock.write("made")
        return root / name

    return made


@pytest.fixture(scope="session")
def toy(shared: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The little recipe, its data, and in `run` what it trains."""
    return shared("toy", lambda folder: regard("train", write_recipe(folder), "--out", folder / "run"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(str(Path(item.nodeid.partition("::")[0])), len(ranks)))
