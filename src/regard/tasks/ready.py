"""What every model that is ready to run has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Search
from regard.engine.engine import Engine, EngineName, Rows, choose
from regard.errors import UserError
from regard.shapes import Padded, by_length
from regard.tasks.folder import Loaded

if TYPE_CHECKING:
    from torch import Tensor

TOGETHER = 4096  # tokens of a batch


class Ready:
    """A model, its words and its search."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        search: Search | None = None,
        batch_size: int | None = None,
        engine: EngineName = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded, self.max_length, self.name = loaded, loaded.max_length, loaded.name
        self.search, self.batch_size, self._tokenizers = search or loaded.search, batch_size, loaded.tokenizers
        self.start, self.end = loaded.config.start, loaded.config.end
        self._engine: dict[str, Any] = {"name": engine, "threads": threads, "batch_size": batch_size}

    @cached_property
    def model(self) -> Any:
        """As PyTorch has it."""
        if self._engine["threads"] is not None:
            import torch

            torch.set_num_threads(self._engine["threads"])
        return self.loaded.model

    @cached_property
    def engine(self) -> Engine:
        loaded = self.loaded
        return choose(config=loaded.config, model=lambda: self.model, native=loaded.native, **self._engine)

    @property
    def tokenizers(self) -> Tokenizers:
        if self._tokenizers is None:
            raise UserError("this model came without the files of its tokenizer; copy them too, or use .logits(ids)")
        return self._tokenizers

    @property
    def tokenizer(self) -> Tokenizer:
        """Of what it says."""
        return self.tokenizers.target

    def batches(self, rows: Rows) -> Iterator[tuple[list[int], Padded]]:
        """Rows of like length together, with their numbers; the longest first."""
        for members in by_length(rows, lambda longest: self.batch_size or max(1, TOGETHER // max(1, longest))):
            yield members, Padded.of([rows[i] for i in members])


def listed(texts: Sequence[Any]) -> Sequence[Any]:
    """Texts as a caller gives them; one alone is one, and not its letters."""
    return [texts] if isinstance(texts, str) else texts


def ids_of(given: Any, vocabulary: int) -> tuple[Padded, bool]:
    """Ids as a caller gives them, one row or several, lists or tensors; and whether it was one."""
    rows = given.tolist() if hasattr(given, "tolist") else list(given)
    alone = bool(rows) and not isinstance(rows[0], list | tuple)
    rows = [rows] if alone else [list(row) for row in rows]
    flat = [i for row in rows for i in row]
    if not all(rows) or not rows or not all(isinstance(i, int) and 0 <= i < vocabulary for i in flat):
        raise UserError(f"ids have to be rows of numbers from 0 to {vocabulary - 1}, and none empty")
    return Padded.of(rows), alone


def as_given(logits: Tensor, alone: bool) -> Tensor:
    return logits[0] if alone else logits
