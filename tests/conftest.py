"""One thread a worker: two workers share two cores. Modules with much to do come first, so that none is waited for."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of whatever library, and before it is imported

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.training.toy import regard, write_recipe

ROOT = Path(__file__).parents[1]
SLOW = (  # modules that wait for `make test`, those that take longest first
    "tests/training/test_distributed.py",
    "tests/serve/test_desk.py",
    "tests/serve/test_server.py",
    "tests/serve/test_abuse.py",
    "tests/serve/test_page.py",
    "tests/test_wheel.py",
    "tests/exchange/test_export.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_cli.py",
    "tests/training/test_damage.py",
    "tests/training/test_resume.py",
    "tests/contracts/test_fixtures.py",
    "tests/contracts/test_learning.py",
    "tests/cli/test_exchange.py",
    "tests/cli/test_tuned_readers.py",
    "tests/look/test_web.py",
    "tests/contracts/test_huggingface.py",
    "tests/exchange/test_minilm.py",
    "tests/cli/test_first_steps.py",
    "tests/cli/test_readers.py",
    "tests/cli/test_streams.py",
    "tests/exchange/test_families.py",
    "tests/exchange/test_ctranslate2.py",
    "tests/exchange/test_onnx.py",
    "tests/serve/test_clients.py",
    "tests/test_documents.py",
    "tests/engine/test_build.py",
    "tests/engine/test_native.py",
    "tests/contracts/test_steppers.py",
    "tests/engine/test_explain.py",
    "tests/contracts/test_presets.py",
    "tests/tasks/test_masked.py",
    "tests/tasks/test_tuning.py",
    "tests/tools/daily/test_grammar.py",
    "tests/training/test_plan.py",
    "tests/metrics/test_paired_bootstrap.py",
    "tests/models/test_reader.py",
    "tests/exchange/test_words.py",
    "tests/tasks/test_language.py",
    "tests/tasks/test_reading.py",
    "tests/tasks/test_bothways.py",
    "tests/training/test_optimizer.py",
    "tests/exchange/test_readers.py",
    "tests/metrics/test_resample.py",
    "tests/exchange/test_native.py",
    "tests/exchange/test_spm.py",
    "tests/exchange/test_g2p.py",
    "tests/look/test_summary.py",
)


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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To import what `make check` leaves out would take a third of its time."""
    own = collection_path.is_relative_to(ROOT) and str(collection_path.relative_to(ROOT)) in SLOW
    return True if own and config.getoption("markexpr").startswith("not slow") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(SLOW)}
    for item in items:
        if item.nodeid.partition("::")[0] in ranks:
            item.add_marker("slow")
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))
