"""How a model is run: one way for validation, test, `run` and `serve`, and the choice of who does it."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args

from regard.decode.config import Hypothesis, Search
from regard.engine.build import NoLibraryError, compiler
from regard.engine.prepare import Prepared, prepared_of, refusal
from regard.errors import UserError
from regard.models.config import ModelConfig
from regard.progress import warn
from regard.shapes import Row

EngineName = Literal["auto", "torch", "native"]
Rows = Sequence[Sequence[int]]
Sources = Sequence[Row]  # as encoders take them; or prompts
Tick = Callable[[int], None] | None  # is told how many are done
Heard = Callable[[list[int]], bool] | None  # is told what an output is so far, after each word; True ends it


class Engine(Protocol):
    """From sources, or prompts, to hypotheses."""

    @property
    def about(self) -> str:
        """Which one it is, in a few words."""

    def decode(
        self, sources: Sources, search: Search, *, tick: Tick = None, heard: Heard = None, prefixes: Rows | None = None
    ) -> list[list[Hypothesis]]:
        """For each source, or prompt, its hypotheses, best first, which begin with the prefix given for it."""


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose(
    name: EngineName,
    config: ModelConfig,
    model: Callable[[], Any],
    native: Callable[[], Prepared],
    *,
    threads: int | None = None,
    batch_size: int | None = None,
) -> Engine:
    """The engine of that name; auto is the native one, in float32, where it can have the model, and else torch's."""
    if name not in get_args(EngineName):
        raise UserError(f"`engine` {name}: there is no such engine; choose {', '.join(get_args(EngineName))}")
    if batch_size is not None and batch_size < 1:
        raise UserError(f"batch size {batch_size} holds no sentence; use 1 or more")
    if name == "native" or (name == "auto" and refusal(config) is None and compiler() is not None):
        from regard.engine.native import NativeEngine

        prepared = native()
        try:
            return NativeEngine(prepared, threads=threads or cores(), batch_size=batch_size)
        except NoLibraryError as error:
            if name == "native":
                raise
            warn(f"torch decodes, as there is no native engine: {error}")
    from regard.engine.torch import TorchEngine

    return TorchEngine(model(), batch_size=batch_size, threads=threads or cores())


def engine_of(model: Any, threads: int) -> Engine:
    """For a model that PyTorch holds, as it is now."""
    return choose("auto", model.config, lambda: model, lambda: prepared_of(model), threads=threads)
