"""`regard import` and `regard export`: models that come from other tools, and go to them."""

from __future__ import annotations

from pathlib import Path

from regard.cli.lines import input_chunks
from regard.errors import UserError
from regard.exchange.export import export, new_place, write_readme
from regard.exchange.folders import load_any
from regard.exchange.huggingface import read_folder
from regard.files import new_folder
from regard.progress import say
from regard.tasks.folder import save_model, save_tokenizers


def import_model(path: Path, out: Path) -> None:
    """A folder of Regard's with what a foreign one holds."""
    loaded = read_folder(path)
    if loaded.tokenizers is None:
        raise UserError(f"{path}: has no tokenizer beside its weights; copy its files there too")
    model, words = loaded.model, loaded.tokenizers.target.vocabulary
    count = sum(p.numel() for p in model.parameters())
    new_place(out)
    with new_folder(out) as folder:
        save_tokenizers(folder, loaded.tokenizers)
        save_model(folder, model, loaded.task, loaded.search, loaded.max_length, {})
        write_readme(folder, "import", loaded, f"{out.name}, brought to Regard from {path.name}", ["a text"])
    say(f"{model.config.kind} for {loaded.task}, {count:,} parameters, {words:,} words; the model is in {out}")


def export_model(path: Path, kind: str, out: Path, texts: Path | None, precision: str) -> None:
    lines = [] if texts is None else [text for chunk in input_chunks([texts]) for text in chunk if text.strip()]
    if texts is not None and not lines:
        raise UserError(f"{texts}: holds no line to check with; give a file with text, or drop --texts")
    say(export(load_any(path), kind, out, lines, precision))
    say(f"written to {out}")
