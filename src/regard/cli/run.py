"""`regard run` and `regard attend`: text in, text or pictures out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.text import lines
from regard.errors import UserError
from regard.files import append, cannot_write, write
from regard.look.model import Model
from regard.metrics.alignment import pharaoh
from regard.progress import Progress
from regard.tasks.align import Aligned, Reading
from regard.tasks.translator import Translator

TOGETHER = 256  # outputs that are aligned at once
AHEAD = 4096  # lines of a file that are read before any is written


def run_lines(
    model: Translator, inputs: Sequence[Path], output: Path | None, as_json: bool, reading: Reading | None = None
) -> None:
    """With a reading, each output is followed by the links of its words: `text ||| 0-0 1-2`."""
    if model.search.num_best > 1 and not as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    if output is None:
        _run(model, inputs, 0, as_json, reading, _print, None if sys.stdout.isatty() else _count(inputs))
        return
    # Named after the job, so that only the same command goes on with it.
    job = repr((model.name, model.search, model.tag, as_json, reading, [_stamp(path) for path in inputs])).encode()
    partial = output.with_name(f"{output.name}.{blake2b(job, digest_size=4).hexdigest()}.partial")
    done = _whole_lines(partial)
    if done:
        warn(f"{partial} has {done:,} lines already; going on after them")
    _run(model, inputs, done, as_json, reading, lambda data: append(partial, data), _count(inputs))
    append(partial, b"")  # no lines make a file too
    try:
        partial.replace(output)
    except OSError as error:
        raise cannot_write(output, error) from error


def _run(
    model: Translator,
    inputs: Sequence[Path],
    done: int,
    as_json: bool,
    reading: Reading | None,
    put: Callable[[bytes], None],
    total: int | None,
) -> None:
    """Put what the model says to each line after the first `done`."""
    skip = done
    with nullcontext() if total is None else Progress(total, "lines") as progress:
        for chunk in input_chunks(inputs):
            texts, skip = chunk[skip:], max(0, skip - len(chunk))

            def tick(now: int, done: int = done) -> None:
                if progress is not None:
                    progress.update(done + now)

            told = _outputs(model, texts, done, reading, tick)
            if as_json:
                pairs = zip(texts, told, strict=True)
                made = [json.dumps({"input": text, "outputs": outputs}, ensure_ascii=False) for text, outputs in pairs]
            else:
                made = [outputs[0]["text"] if outputs else "" for outputs in told]
                if reading is not None:
                    links = [outputs[0]["alignment"] if outputs else "" for outputs in told]
                    made = [f"{text} ||| {link}" for text, link in zip(made, links, strict=True)]
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


def _outputs(
    model: Translator, texts: Sequence[str], done: int, reading: Reading | None, tick: Callable[[int], None]
) -> list[list[dict[str, Any]]]:
    """What the model says to each text; a long one is translated in parts, with a warning, and never cut."""
    parts = [model.parts(text) if text.strip() else [text] for text in texts]
    found = iter(model.translate([part for own in parts for part in own], tick))
    told = []
    to_align: list[tuple[dict[str, Any], list[str], list[Sequence[int]]]] = []  # with parts and their outputs
    for number, own in enumerate(parts, done + 1):
        answers = [next(found) for _ in own]
        if len(own) > 1:
            warn(f"line {number} is longer than {model.max_length} tokens; it was translated in {len(own)} parts")
        if any(best and best[0].tokens[-1] != model.model.end for best in answers):
            warn(f"line {number}: the output reached its limit of tokens and may lack its end")
        outputs = []
        for rank in range(max(len(best) for best in answers)):
            ranked = [best[min(rank, len(best) - 1)] for best in answers if best]
            made: dict[str, Any] = {
                "text": " ".join(model.text(h) for h in ranked),
                "score": sum(h.score for h in ranked) / len(ranked),
                "log_prob": sum(h.log_prob for h in ranked),
            }
            filled = [part for part, best in zip(own, answers, strict=True) if best]
            to_align.append((made, filled, [h.tokens for h in ranked]))
            outputs.append(made)
        told.append(outputs)
    if reading is not None:
        for start in range(0, len(to_align), TOGETHER):
            _align(model, to_align[start : start + TOGETHER], reading)
    return told


def _align(
    model: Translator, outputs: list[tuple[dict[str, Any], list[str], list[Sequence[int]]]], reading: Reading
) -> None:
    """Add links to outputs; a line whose parts were translated one by one is counted through."""
    pairs = [pair for _, parts, said in outputs for pair in zip(parts, said, strict=True)]
    aligned, number = Aligned(model, [part for part, _ in pairs], [tokens for _, tokens in pairs]), 0
    for made, parts, said in outputs:
        found, sources, targets = set(), 0, 0
        for part, tokens in zip(parts, said, strict=True):
            found |= {(sources + i, targets + j) for i, j in aligned.links(number, reading)}
            sources += len(part.split())
            targets += len(model.tokenizers.target.decode(tokens).split())
            number += 1
        made["alignment"] = pharaoh(frozenset(found))


def warn(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr)


def attend_text(
    model: Model, text: str, target: str | None, output: Path | None, site: str | None, head: int | None, pieces: bool
) -> None:
    look = model.attend(text, target)
    picture = look.picture(site, head, pieces=pieces)
    if output is None:
        print(picture.terminal(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    elif output.suffix == ".svg":
        write(output, picture.svg().encode())
    else:
        look.save(output)


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
