"""Lines in, lines out: in order, as they come, and on after a kill."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from regard.data.sample import chunks
from regard.data.text import lines
from regard.errors import UserError
from regard.files import append, cannot_write, locked, write
from regard.progress import Progress, warn
from regard.tasks.folder import stamp

Tick = Callable[[int], None]
Make = Callable[[Sequence[str], int, Tick], list[str]]  # from texts, and how many came before them, to a line for each
Put = Callable[[Sequence[str], bytes], None]  # away with texts and the lines made of them
SUM_BYTES = 8


def run_lines(inputs: Sequence[Path], output: Path | None, job: str, make: Make) -> None:
    """As many lines out as in, in order; `job` names the work, so that only the same command goes on with it."""
    if output is None:
        _run(inputs, [], make, _print, None if sys.stdout.isatty() else _count(inputs))
        return
    # Standard input has no stamp, nor has a name that reading will complain of.
    named = repr((job, [stamp(path) if path.exists() else str(path) for path in inputs])).encode()
    partial = output.with_name(f"{output.name}.{blake2b(named, digest_size=4).hexdigest()}.partial")
    sums = partial.with_suffix(".inputs")  # of the input line that each output line was made from
    with locked(partial, f"{partial}: another process writes it; wait for that, or choose another --output"):
        done = min(_whole_lines(partial), sums.stat().st_size // SUM_BYTES if sums.exists() else 0)
        _whole_lines(partial, done)
        seen = sums.read_bytes()[: done * SUM_BYTES] if done else b""
        write(sums, seen)
        if done:
            warn(f"{partial} has {done:,} lines already; going on after them")

        def put(texts: Sequence[str], data: bytes) -> None:
            append(sums, b"".join(map(_sum, texts)))
            append(partial, data)

        _run(inputs, [seen[i : i + SUM_BYTES] for i in range(0, len(seen), SUM_BYTES)], make, put, _count(inputs))
        try:
            partial.replace(output)
            sums.unlink()
        except OSError as error:
            raise cannot_write(output, error) from error


def _run(inputs: Sequence[Path], seen: Sequence[bytes], make: Make, put: Put, total: int | None) -> None:
    """Put what is made of each line but the first, whose sums are `seen`."""
    done = 0
    with nullcontext() if total is None else Progress(total, "lines") as progress:
        for chunk in input_chunks(inputs):
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


def _count(inputs: Sequence[Path]) -> int | None:
    """How many lines there are, if that can be known beforehand: a pipe can be read once only."""
    if not inputs or not all(path.is_file() for path in inputs):
        return None
    return sum(1 for path in inputs for _ in lines(path, strict=False))


def _whole_lines(path: Path, most: int | None = None) -> int:
    """How many lines a file has; half a line at its end, where a kill or a full disk cut it, and lines after so many
    are taken off."""
    try:
        with path.open("r+b") as file:
            count = end = 0
            for raw in islice(file, most):
                if raw.endswith(b"\n"):
                    count, end = count + 1, end + len(raw)
            file.truncate(end)
    except OSError as error:
        raise cannot_write(path, error) from error
    return count


def input_chunks(inputs: Sequence[Path]) -> Iterator[list[str]]:
    """Lines of files, or of standard input, in order; undecodable bytes become U+FFFD, with one warning.

    From files as many at a time as batches want; from a pipe as many as have come, so that nobody waits for more.
    """
    if not inputs or inputs == [Path("-")]:
        arriving = _arriving()
    else:
        arriving = chunks(text for path in inputs for text in lines(path, strict=False))
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
