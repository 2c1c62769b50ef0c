"""`regard run` and `regard evaluate`: each model's own task, line by line, and how good it is.

Their options are those of the model that they are given, as its task declares them. Lines go in and out in order, as
they come, and on after a kill.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import Field, fields
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from regard import api
from regard.cli.main import Engine, Folder, Json, Threads
from regard.data.sample import chunks
from regard.data.text import lines
from regard.errors import UserError
from regard.exchange.folders import task_of
from regard.files import append, locked, write, writing
from regard.progress import Progress, say, warn
from regard.tasks.folder import stamp
from regard.tasks.registry import TASKS
from regard.tasks.runnable import Runnable, Tick
from regard.tasks.spec import TaskSpec

dumps = partial(json.dumps, ensure_ascii=False)
Make = Callable[[Sequence[str], int, Tick], list[str]]  # from texts, and how many came before them, to a line for each
Put = Callable[[Sequence[str], bytes], None]  # away with texts and the lines made of them
SUM_BYTES = 8
Read = Callable[[Path], Iterator[str]]  # the items of a file
as_text: Read = partial(lines, strict=False)
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
    inputs: Annotated[list[Path] | None, Argument(help="Files; none or - is standard input.")] = None,
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

    run_lines(inputs or [], output, repr((ready.name, as_json, options.job())), make, ready.lines)


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


def run_lines(inputs: Sequence[Path], output: Path | None, job: str, make: Make, read: Read = as_text) -> None:
    """As many lines out as in, in order; `job` names the work, so that only the same command goes on with it."""
    if output is None:
        _run(inputs, [], make, _print, None if sys.stdout.isatty() else _count(inputs, read), read)
        return
    # Standard input has no stamp, nor has a name that reading will complain of.
    named = repr((job, [stamp(path) if path.exists() else str(path) for path in inputs])).encode()
    unfinished = output.with_name(f"{output.name}.{blake2b(named, digest_size=4).hexdigest()}.partial")
    sums = unfinished.with_suffix(".inputs")  # of the input line that each output line was made from
    with locked(unfinished, f"{unfinished}: another process writes it; wait for that, or choose another --output"):
        done = min(_whole_lines(unfinished), sums.stat().st_size // SUM_BYTES if sums.exists() else 0)
        _whole_lines(unfinished, done)
        seen = sums.read_bytes()[: done * SUM_BYTES] if done else b""
        write(sums, seen)
        if done:
            warn(f"{unfinished} has {done:,} lines already; going on after them")

        def put(texts: Sequence[str], data: bytes) -> None:
            append(sums, b"".join(map(_sum, texts)))
            append(unfinished, data)

        before = [seen[i : i + SUM_BYTES] for i in range(0, len(seen), SUM_BYTES)]
        _run(inputs, before, make, put, _count(inputs, read), read)
        with writing(output):
            unfinished.replace(output)
            sums.unlink()


def _run(inputs: Sequence[Path], seen: Sequence[bytes], make: Make, put: Put, total: int | None, read: Read) -> None:
    """Put what is made of each line but the first, whose sums are `seen`."""
    done = 0
    with nullcontext() if total is None else Progress(total, "lines") as progress:
        for chunk in input_chunks(inputs, read):
            again = seen[done : done + len(chunk)]
            for number, (text, before) in enumerate(zip(chunk, again, strict=False), done + 1):
                if _sum(text) != before:
                    raise _other_input(f"line {number} is another one")
            done, texts = done + len(again), chunk[len(again) :]

            def tick(now: int, done: int = done) -> None:
                if progress is not None:
                    progress.update(done + now)

            outputs = (line.replace("\r", " ") for line in make(texts, done, tick)) if texts else ()
            put(texts, "".join(f"{line}\n" for line in outputs).encode("utf-8", "replace"))
            done += len(texts)
    if done < len(seen):
        raise _other_input(f"it has {done:,} lines, and {len(seen):,} are done")


def _other_input(what: str) -> UserError:
    return UserError(
        f"the input is not the one that the unfinished output was made from ({what}); remove the .partial file beside "
        "the output to begin anew, or give the same input"
    )


def _sum(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SUM_BYTES).digest()


def _print(texts: Sequence[str], data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _count(inputs: Sequence[Path], read: Read) -> int | None:
    """How many lines there are, if that can be known beforehand: a pipe can be read once only."""
    if not inputs or not all(path.is_file() for path in inputs):
        return None
    return sum(1 for path in inputs for _ in read(path))


def _whole_lines(path: Path, most: int | None = None) -> int:
    """How many lines a file has; half a line at its end, where a kill or a full disk cut it, and lines after so many
    are taken off."""
    count = end = 0
    with writing(path), path.open("r+b") as file:
        for raw in islice(file, most):
            if raw.endswith(b"\n"):
                count, end = count + 1, end + len(raw)
        file.truncate(end)
    return count


def input_chunks(inputs: Sequence[Path], read: Read = as_text) -> Iterator[list[str]]:
    """What is read of files, or lines of standard input, in order; undecodable bytes become U+FFFD, with one warning.

    From files as many at a time as batches want; from a pipe as many as have come, so that nobody waits for more.
    """
    if not inputs or inputs == [Path("-")]:
        arriving = _arriving()
    else:
        arriving = chunks(text for path in inputs for text in read(path))
    done, warned = 0, False
    for chunk in arriving:
        if done == 0:
            chunk[0] = chunk[0].removeprefix("\ufeff")  # a byte-order mark is no word
        odd = next((i for i, text in enumerate(chunk, 1) if "\ufffd" in text), None)
        if odd is not None and not warned:
            warned = True
            warn(f"line {done + odd} is not UTF-8; undecodable bytes become U+FFFD")
        yield chunk
        done += len(chunk)


def _arriving() -> Iterator[list[str]]:
    """Whole lines from standard input, as soon as they are there."""
    if sys.stdin.isatty():
        warn("reading from the terminal: a sentence and Enter; Ctrl-D ends")
    parts: list[bytes] = []
    while data := sys.stdin.buffer.read1(1 << 18):  # type: ignore[union-attr]
        parts.append(data)
        if b"\n" in data:
            *whole, rest = b"".join(parts).split(b"\n")
            parts = [rest] if rest else []
            yield [raw.removesuffix(b"\r").decode("utf-8", "replace") for raw in whole]
    if parts:
        yield [b"".join(parts).removesuffix(b"\r").decode("utf-8", "replace")]


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
