"""`regard run` and `regard evaluate`: each model's own task, line by line, and how good it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import api
from regard.cli.lines import Tick, run_lines
from regard.errors import UserError
from regard.progress import say, warn
from regard.tasks.runnable import Runnable

Folder = Annotated[Path, typer.Argument(help="A model: Regard's, or in Hugging Face's layout.", show_default=False)]
Inputs = Annotated[list[Path] | None, typer.Argument(help="Text files; none or - is standard input.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write here; after a kill, go on.")]
BatchSize = Annotated[int | None, typer.Option(help="Sentences at once. Default: as many as fit well.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
Engine = Annotated[str, typer.Option(help="native (compiled once), torch, or auto: native where it can.")]
Threads = Annotated[int | None, typer.Option(help="Processor threads. Default: all.")]


def opened(model: Path, **options: Any) -> Runnable:
    """What is in a folder, ready to use."""
    begun, best, ended = ((model / name).exists() for name in ("plan.json", "config.json", "README.md"))
    if begun and best and not ended:
        warn(f"the training of {model} has not ended; this is its best model so far")
    return api.load(model, **options)


def run(
    model: Folder,
    *,
    inputs: Inputs = None,
    output: Output = None,
    batch_size: BatchSize = None,
    as_json: Json = False,
    engine: Engine = "auto",
    threads: Threads = None,
    own: Mapping[str, Any],
) -> None:
    """Lines in, lines out; or one text as it grows."""
    ready = opened(model, batch_size=batch_size, engine=engine, threads=threads)
    options = ready.options(own)
    if options.single:
        if inputs or output or as_json:
            raise UserError("--prompt goes on with one text, here; for files, --output or --json drop it")
        ready.stream(options, _put)
        return
    if not options.plain and not as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    if about := ready.about(options):
        say(about)

    def make(texts: Sequence[str], done: int, tick: Tick) -> list[str]:
        found = ready.predict(texts, options, first=done + 1, tick=tick)
        if not as_json:
            return [each.line for each in found]
        return [_object({"input": text, **each.data}) for text, each in zip(texts, found, strict=True)]

    run_lines(inputs or [], output, repr((ready.name, as_json, options.job())), make)


def evaluate(
    model: Folder,
    *,
    batch_size: BatchSize = None,
    as_json: Json = False,
    engine: Engine = "auto",
    threads: Threads = None,
    own: Mapping[str, Any],
) -> None:
    """Print how good a model is."""
    found = opened(model, batch_size=batch_size, engine=engine, threads=threads).evaluate(**own)
    print(_object(found.data) if as_json else "\n".join(found.lines))


def _object(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _put(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "replace").decode())
    sys.stdout.flush()
