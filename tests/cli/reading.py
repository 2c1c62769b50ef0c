"""Little readers for the command line: made-up examples of every question, recipes, and models to begin with."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from regard.cli.main import program
from regard.data.config import TokenizerConfig
from regard.data.tokenizer import MASK, Tokenizer, Tokenizers
from regard.decode.config import Greedy, Sample
from regard.models.build import build
from regard.models.config import BertConfig, GptConfig
from regard.models.presets import transformer_tiny
from regard.rng import Key
from regard.tasks.folder import save_model, save_tokenizers

METRICS = {
    "classification": {"accuracy", "f1", "matthews"},
    "regression": {"pearson", "spearman"},
    "choice": {"accuracy"},
    "tagging": {"tag_accuracy", "entity_f1"},
    "spans": {"answer_f1", "exact_match"},
}
SHAPE: dict[str, Any] = {"width": 16, "hidden": 32, "num_heads": 2, "num_layers": 1}
POSITION = {"kind": "learned", "max_length": 40}
TRUNKS: dict[str, dict[str, Any]] = {
    "bert": {"kind": "bert", **SHAPE, "placement": "post", "position": POSITION},
    "gpt": {"kind": "gpt", **SHAPE},
    "recurrent_text": {"kind": "recurrent_text", "embedding": 12, "width": 16},
    "elmo": {"kind": "elmo", "embedding": 12, "width": 8},
}
FILL = ["one", "two", "three", "four", "Fünf", "六", "seven"]


def regard(*arguments: object, stdin: bytes = b"") -> tuple[str, str]:
    """The program, in this very process; what it says and what it tells meanwhile."""
    out, told, before = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(told):
            program([*map(str, arguments)])([*map(str, arguments)], standalone_mode=False)
    finally:
        sys.stdin = before
    out.flush()
    return out.buffer.getvalue().decode(), told.getvalue()  # type: ignore[attr-defined]


def words_at(i: int, length: int) -> list[str]:
    return [FILL[int(j)] for j in Key(0, ("words", i)).generator().integers(0, len(FILL), length)]


def sentences(folder: Path, pairs: bool = False) -> Path:
    rows = []
    for i in range(60):
        text = words_at(i, 5)
        text[i % 5] = ("up", "down")[i % 2]
        rows.append([" ".join(text), *([" ".join(words_at(-i, 3))] if pairs else []), ("good", "bad")[i % 2]])
    path = folder / f"train{len(rows[0])}.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


def data_for(task: str, folder: Path) -> Path:
    """A file of made-up examples."""
    if task == "classification":
        return sentences(folder)
    if task == "regression":
        path = folder / "alike.tsv"
        rows = ["\t".join((" ".join(words_at(i, 4)), " ".join(words_at(-i, 3)), f"{i % 11 / 2}")) for i in range(60)]
        path.write_text("first\tsecond\tscore\n" + "\n".join(rows) + "\n", "utf-8")
    elif task == "choice":
        path = folder / "choices.jsonl"
        made = [(i, [" ".join(words_at(i + 100 * j, 2)) for j in range(2 + i % 3)]) for i in range(60)]
        rows = [json.dumps({"text": " ".join(words_at(-i, 4)), "choices": c, "label": i % len(c)}) for i, c in made]
        path.write_text("\n".join(rows) + "\n", "utf-8")
    elif task == "tagging":
        path = folder / "tags.conll"
        tagged = [[f"{w} {'B-X' if w == '六' else 'O'}" for w in words_at(i, 1 + i % 6)] for i in range(60)]
        path.write_text("\n\n".join("\n".join(lines) for lines in tagged) + "\n", "utf-8")
    else:
        path, paragraphs = folder / "asked.json", []
        for i in range(60):
            text = " ".join([*words_at(i, i % 7), "so is", *words_at(-i, 3)])
            gold = {"text": words_at(-i, 3)[0], "answer_start": text.index("so is ") + 6}
            paragraphs.append({"context": text, "qas": [{"question": "what so?", "answers": [gold]}]})
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), "utf-8")
    return path


def recipe(folder: Path, task: str, model: dict[str, Any], **train: Any) -> Path:
    data = data_for(task, folder)
    content = {
        "task": task,
        "data": {
            "train": [{"file": str(data)}], "hold_out": 0.2, "tokenizer": {"vocabulary": 320}, "max_length": 30
        },
        "model": model,
        "train": {"steps": 8, "batch_tokens": 300, "evaluations": 2, "checkpoints": 2, "lr": 0.01, **train},
    }  # fmt: skip
    path = folder / f"{task}.yaml"
    path.write_text(json.dumps(content), "utf-8")
    return path


def base(folder: Path, kind: str) -> Path:
    """A model of text with weights at random, in a folder."""
    out = folder / f"base-{kind}"
    out.mkdir()
    lines = [" ".join([*FILL, "up", "down", "so is what?"])] * 3
    tags = (MASK,) if kind == "bert" else ()
    tokenizer = Tokenizer.train(iter(lines), TokenizerConfig(vocabulary=320), tags)
    if kind == "transformer":
        config: Any = transformer_tiny().sized(tokenizer.vocabulary, tokenizer.vocabulary)
    else:
        config = {"bert": BertConfig, "gpt": GptConfig}[kind](**SHAPE, tied=kind != "gpt").sized(tokenizer.vocabulary)
    save_tokenizers(out, Tokenizers(tokenizer, tokenizer))
    task, search = {"bert": ("mlm", Greedy()), "gpt": ("lm", Sample())}.get(kind, ("translation", Greedy()))
    save_model(out, build(config, seed=4), task, search, 40, {})
    return out
