"""`regard run` and `regard evaluate`: each model's own task, line by line, and how good it is.

Their options are those of the model that they are given, as its task declares them.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard import api
from regard.cli.lines import Tick, run_lines
from regard.cli.main import Engine, Folder, Json, Threads
from regard.errors import UserError
from regard.exchange.folders import task_of
from regard.progress import say, warn
from regard.tasks.registry import TASKS
from regard.tasks.runnable import Runnable
from regard.tasks.spec import TaskSpec

dumps = partial(json.dumps, ensure_ascii=False)
BatchSize = Annotated[int | None, Option(help="Sentences at once. Default: as many as fit well.")]


def opened(model: Path, **options: Any) -> Runnable:
    """What is in a folder, ready to use."""
    begun, best, ended = ((model / name).exists() for name in ("plan.json", "config.json", "README.md"))
    if begun and best and not ended:
        warn(f"the training of {model} has not ended; this is its best model so far")
    return api.load(model, **options)


def run(
    model: Folder,
    *,
    inputs: Annotated[list[Path] | None, Argument(help="Text files; none or - is standard input.")] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Write here; after a kill, go on.")] = None,
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
        ready.stream(options, partial(print, end="", flush=True))
        return
    if not options.plain and not as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    if about := ready.about(options):
        say(about)

    def make(texts: Sequence[str], done: int, tick: Tick) -> list[str]:
        found = ready.predict(texts, options, first=done + 1, tick=tick)
        if not as_json:
            return [each.line for each in found]
        return [dumps({"input": text, **each.data}) for text, each in zip(texts, found, strict=True)]

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
    print(dumps(found.data) if as_json else "\n".join(found.lines))


def named_model(arguments: Sequence[str]) -> TaskSpec | None:
    """The task of the first model that a command line names."""
    names = (task_of(Path(word)) for word in arguments if not word.startswith("-"))
    return next((TASKS[name] for name in names if name in TASKS), None)


def with_options(command: Callable[..., None], own: str, spec: TaskSpec | None, verb: str) -> Callable[..., None]:
    """A command with the options that a task declares as its `own`; without a model, those of all models alone."""
    schema = [] if spec is None else fields(getattr(spec, own))
    set_by_name: Mapping[str, Any] = {} if spec is None else spec.verbs.get(verb, {})

    def call(**given: Any) -> None:
        if spec is not None and verb not in (own, *spec.verbs):
            those = " and ".join(each.plural for each in TASKS.values() if verb in each.verbs)
            raise UserError(f"{verb} is for {those}, and this is a model for {spec.purpose}; use regard run")
        options = {each.name: given.pop(each.name) for each in schema}
        several = {each.name: tuple(options[each.name] or ()) for each in schema if isinstance(each.default, tuple)}
        command(**given, own={**options, **several, **set_by_name})

    common = [each for name, each in inspect.signature(command, eval_str=True).parameters.items() if name != "own"]
    parameters = [*common, *map(_parameter, schema)]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameter(each: Field[Any]) -> inspect.Parameter:
    """The option of a field, which has its help with it."""
    name = each.metadata["name"] or each.name.replace("_", "-")
    many, kind = isinstance(each.default, tuple), each.metadata["kind"] or type(each.default)
    hint = list[str] | None if many else kind if each.default is not None else kind | None
    names = [f"--{name}", *(["-o"] if name == "output" else [])]
    annotation = Annotated[hint, Option(*names, help=each.metadata["help"])]  # type: ignore[valid-type]
    default = None if many else each.default
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
