"""Lines in, lines out: in order, as they come, and on after a kill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from regard.data.text import lines
from regard.files import append, cannot_write
from regard.progress import Progress

Tick = Callable[[int], None]
Make = Callable[[Sequence[str], int, Tick], list[str]]  # from texts, and how many came before them, to a line for each
AHEAD = 4096  # lines of a file that are read before any is written


def run_lines(inputs: Sequence[Path], output: Path | None, job: str, make: Make) -> None:
    """As many lines out as in, in order; `job` names the work, so that only the same command goes on with it."""
    if output is None:
        _run(inputs, 0, make, _print, None if sys.stdout.isatty() else _count(inputs))
        return
    named = repr((job, [_stamp(path) for path in inputs])).encode()
    partial = output.with_name(f"{output.name}.{blake2b(named, digest_size=4).hexdigest()}.partial")
    done = _whole_lines(partial)
    if done:
        warn(f"{partial} has {done:,} lines already; going on after them")
    _run(inputs, done, make, lambda data: append(partial, data), _count(inputs))
    append(partial, b"")  # no lines make a file too
    try:
        partial.replace(output)
    except OSError as error:
        raise cannot_write(output, error) from error


def _run(inputs: Sequence[Path], done: int, make: Make, put: Callable[[bytes], None], total: int | None) -> None:
    """Put what is made of each line after the first `done`."""
    skip = done
    with nullcontext() if total is None else Progress(total, "lines") as progress:
        for chunk in input_chunks(inputs):
            texts, skip = chunk[skip:], max(0, skip - len(chunk))

            def tick(now: int, done: int = done) -> None:
                if progress is not None:
                    progress.update(done + now)

            made = make(texts, done, tick)
            put("".join(f"{line}\n" for line in made).encode("utf-8", "replace"))
            done += len(texts)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _count(inputs: Sequence[Path]) -> int | None:
    """How many lines there are, if that can be known beforehand."""
    if not inputs or Path("-") in inputs:
        return None
    return sum(1 for path in inputs for _ in lines(path, strict=False))


def _whole_lines(path: Path) -> int:
    """How many lines a file has; half a line at its end, where a kill or a full disk cut it, is taken off."""
    if not path.exists():
        return 0
    try:
        with path.open("r+b") as file:
            count = end = 0
            for raw in file:
                if raw.endswith(b"\n"):
                    count, end = count + 1, end + len(raw)
            file.truncate(end)
    except OSError as error:
        raise cannot_write(path, error) from error
    return count


def _stamp(path: Path) -> tuple[str, int, int]:
    """A file, and whether it is still the same."""
    if not path.exists():  # standard input, or a name that reading will complain of
        return str(path), 0, 0
    return str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns


def warn(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr)


def input_chunks(inputs: Sequence[Path]) -> Iterator[list[str]]:
    """Lines of files, or of standard input, in order; undecodable bytes become U+FFFD, with one warning.

    From files as many at a time as batches want; from a pipe as many as have come, so that nobody waits for more.
    """
    if not inputs or inputs == [Path("-")]:
        chunks: Iterator[list[str]] = ([_text(raw) for raw in raws] for raws in _arriving())
    else:
        texts = (text for path in inputs for text in lines(path, strict=False))
        chunks = iter(lambda: list(islice(texts, AHEAD)), [])
    done, warned = 0, False
    for chunk in chunks:
        if done == 0:
            chunk[0] = chunk[0].removeprefix("\ufeff")  # a byte-order mark is no word
        odd = next((i for i, text in enumerate(chunk, 1) if "\ufffd" in text), None)
        if odd is not None and not warned:
            warned = True
            warn(f"line {done + odd} is not UTF-8; undecodable bytes become U+FFFD")
        yield chunk
        done += len(chunk)


def _text(raw: bytes) -> str:
    return raw.removesuffix(b"\r").decode("utf-8", "replace")


def _arriving() -> Iterator[list[bytes]]:
    """Whole lines from standard input, as soon as they are there."""
    if sys.stdin.isatty():
        warn("reading from the terminal: a sentence and Enter; Ctrl-D ends")
    parts: list[bytes] = []
    while data := sys.stdin.buffer.read1(1 << 18):  # type: ignore[union-attr]
        parts.append(data)
        if b"\n" in data:
            *whole, rest = b"".join(parts).split(b"\n")
            parts = [rest] if rest else []
            yield whole
    if parts:
        yield [b"".join(parts)]
