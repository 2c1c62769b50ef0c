"""A folder prepared for the native engine, which runs it without torch; checked on the spot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from regard.decode.config import Hypothesis
from regard.engine.engine import Engine
from regard.engine.native import NativeEngine
from regard.engine.prepare import NATIVE, prepare, weights_of, write_prepared
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.exchange.export import new_place, read_texts
from regard.exchange.readme import write_readme
from regard.files import new_folder
from regard.tasks.folder import Loaded, load_folder, save_settings, save_tokenizers
from regard.tasks.translation.task import log_probs

PRECISIONS = ("int8", "float32")


def export_native(loaded: Loaded, out: Path, texts: Sequence[str], precision: str) -> str:
    """Write it, decode texts by both engines, and tell what changed in quality and in speed."""
    if precision not in PRECISIONS:
        raise UserError(f"--precision {precision}: there is no such; choose {' or '.join(PRECISIONS)}")
    tokenizers = loaded.words
    new_place(out)
    prepared = prepare(loaded.config, weights_of(loaded.model), small=precision == "int8")
    texts, rows = read_texts(loaded, texts)
    with new_folder(out) as folder:
        write_prepared(folder / NATIVE, prepared)
        save_tokenizers(folder, tokenizers)
        save_settings(folder, loaded.config, loaded.task, loaded.search, loaded.max_length, {})
        write_readme(folder, "native", loaded, out.name, texts[:1])
        reference, before = _timed(TorchEngine(loaded.model), loaded, rows)
        outputs, after = _timed(NativeEngine(load_folder(folder).native()), loaded, rows)
        summary = _compared(loaded, rows, reference, outputs)
    return f"{precision}: {summary}, {before / after:.1f} times as fast as torch"


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
