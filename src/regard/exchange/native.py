"""A folder prepared for the native engine, which runs it without torch; checked on the spot."""

from __future__ import annotations

import time
from pathlib import Path

from regard.decode.config import Hypothesis
from regard.engine.engine import Engine
from regard.engine.native import NativeEngine
from regard.engine.prepare import NATIVE, prepared_of, write_prepared
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.tasks.folder import Loaded, load_folder, save_settings, save_tokenizers
from regard.tasks.translation.task import log_probs

PRECISIONS = ("int8", "float32")


def write_native(folder: Path, loaded: Loaded, rows: list[list[int]], precision: str) -> str:
    """Write it, decode texts by both engines, and tell what changed in quality and in speed."""
    if precision not in PRECISIONS:
        raise UserError(f"--precision {precision}: there is no such; choose {' or '.join(PRECISIONS)}")
    write_prepared(folder / NATIVE, prepared_of(loaded.model, small=precision == "int8"))
    save_tokenizers(folder, loaded.words)
    save_settings(folder, loaded.config, loaded.task, loaded.search, loaded.max_length, {})
    reference, before = _timed(TorchEngine(loaded.model), loaded, rows)
    outputs, after = _timed(NativeEngine(load_folder(folder).native()), loaded, rows)
    return f"{precision}: {_compared(loaded, rows, reference, outputs)}, {before / after:.1f} times as fast as torch"


def _timed(engine: Engine, loaded: Loaded, rows: list[list[int]]) -> tuple[list[Hypothesis], float]:
    engine.decode(rows[:1], loaded.search)
    began = time.perf_counter()
    outputs = [best[0] for best in engine.decode(rows, loaded.search)]
    return outputs, time.perf_counter() - began


def _compared(loaded: Loaded, rows: list[list[int]], before: list[Hypothesis], after: list[Hypothesis]) -> str:
    """How many outputs are the same, and how likely all are by the model itself, as it was."""
    same = sum(a.tokens == b.tokens for a, b in zip(before, after, strict=True))
    summary = f"{same} of {len(rows)} outputs are the same"
    if loaded.spec.form != "source":
        return summary
    likely = []
    for outputs in (before, after):
        targets = [h.tokens[:-1] if h.tokens[-1] == loaded.config.end else h.tokens for h in outputs]
        likely.append(float(log_probs(loaded.model, rows, targets).sum() / sum(len(h.tokens) for h in outputs)))
    return f"{summary}; log-probability a token, by the model as it was, {likely[0]:.4f} before, {likely[1]:.4f} now"
