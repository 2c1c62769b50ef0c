"""Clients that others wrote, unmodified: the scripts of bench/clients.py, on little models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.clients import KEY, KEYED, OPEN, At

from tests.serve.toys import MODELS, make_model, service


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    folder = tmp_path_factory.mktemp("models")
    return f"en-de={make_model(folder / 'translator')}", make_model(folder / "teller", "language"), MODELS / "bert"


@pytest.fixture(scope="module")
def free(folders: tuple[str | Path, ...]) -> Iterator[At]:
    with service(*folders) as found:
        yield At(found.url)


@pytest.fixture(scope="module")
def keyed(folders: tuple[str | Path, ...]) -> Iterator[At]:
    with service(*folders, env={"REGARD_API_KEYS": KEY}) as found:
        yield At(found.url, KEY)


@pytest.mark.parametrize("call", OPEN, ids=lambda call: call.__name__)
def test_without_keys(call: Callable[[At], None], free: At) -> None:
    call(free)


@pytest.mark.parametrize("call", KEYED, ids=lambda call: call.__name__)
def test_with_a_key(call: Callable[[At], None], keyed: At) -> None:
    call(keyed)
