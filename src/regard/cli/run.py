"""`regard run` and `regard evaluate`: text in, text out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.data.text import lines
from regard.errors import UserError
from regard.files import write
from regard.look.model import Model
from regard.metrics.text import bleu, chrf, exact_match
from regard.progress import Progress
from regard.tasks.translator import Translator

AHEAD = 4096  # lines read before any is written, when input is a file


def run_lines(
    folder: Path,
    inputs: Sequence[Path],
    beam: int | None,
    num_best: int,
    batch_size: int | None,
    tag: str | None,
    as_json: bool,
    threads: int | None,
) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
    if num_best > 1 and not as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    model = Translator(folder, beam=beam, num_best=num_best, batch_size=batch_size, tag=tag)
    done = 0
    texts = _input_lines(inputs)
    while chunk := list(islice(texts, AHEAD)):
        for text, outputs in zip(chunk, _outputs(model, chunk, done), strict=True):
            if as_json:
                print(json.dumps({"input": text, "outputs": outputs}, ensure_ascii=False))
            else:
                print(outputs[0]["text"] if outputs else "")
        sys.stdout.flush()
        done += len(chunk)


def _outputs(model: Translator, texts: Sequence[str], done: int) -> list[list[dict[str, Any]]]:
    """What the model says to each text; a long one is translated in parts, with a warning, and never cut."""
    parts = [model.parts(text) if text.strip() else [text] for text in texts]
    found = iter(model.translate([part for own in parts for part in own]))
    told = []
    for number, own in enumerate(parts, done + 1):
        answers = [next(found) for _ in own]
        if len(own) > 1:
            warn(f"line {number} is longer than {model.max_length} tokens; it was translated in {len(own)} parts")
        if any(best and best[0].tokens[-1] != model.model.end for best in answers):
            warn(f"line {number}: the output reached {model.search.max_length} tokens and may lack its end")
        outputs = []
        for rank in range(max(len(best) for best in answers)):
            ranked = [best[min(rank, len(best) - 1)] for best in answers if best]
            outputs.append(
                {
                    "text": " ".join(model.text(h) for h in ranked),
                    "score": sum(h.score for h in ranked) / len(ranked),
                    "log_prob": sum(h.log_prob for h in ranked),
                }
            )
        told.append(outputs)
    return told


def warn(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr)


def evaluate_files(
    folder: Path,
    source: Path,
    target: Path,
    beam: int | None,
    batch_size: int | None,
    tag: str | None,
    tokenized: bool,
    output: Path | None,
    as_json: bool,
    threads: int | None,
) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
    sources, references = (list(_input_lines([path])) for path in (source, target))
    if len(sources) != len(references):
        raise UserError(
            f"{source} has {len(sources)} lines and {target} {len(references)}; each sentence needs its reference"
        )
    model = Translator(folder, beam=beam, batch_size=batch_size, tag=tag)
    with Progress(len(sources), "translate") as progress:
        found = model.translate(sources, progress.update)
    outputs = [model.text(hypotheses[0]) if hypotheses else "" for hypotheses in found]
    if output is not None:
        write(output, "".join(f"{line}\n" for line in outputs).encode())
    scores = [
        bleu(outputs, references, tokenized=tokenized),
        chrf(outputs, references),
        exact_match(outputs, references),
    ]
    if as_json:
        described = {s.name: {"value": s.value, "signature": s.signature} for s in scores}
        print(json.dumps({"sentences": len(sources), **described}))
    else:
        for s in scores:
            print(f"{s.name:12} {s.value:6.2f}   {s.signature or ''}".rstrip())


def attend_text(
    folder: Path,
    text: str,
    target: str | None,
    output: Path | None,
    site: str | None,
    head: int | None,
    pieces: bool,
    tag: str | None,
) -> None:
    look = Model(folder, tag=tag).attend(text, target)
    picture = look.picture(site, head, pieces=pieces)
    if output is None:
        print(picture.terminal(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    elif output.suffix == ".svg":
        write(output, picture.svg().encode())
    else:
        look.save(output)


def _input_lines(inputs: Sequence[Path]) -> Iterator[str]:
    """Lines of files, or of standard input, in order; undecodable bytes become U+FFFD, with one warning."""
    if not inputs or inputs == [Path("-")]:
        raws = (raw.removesuffix(b"\n").removesuffix(b"\r") for raw in sys.stdin.buffer)
        texts: Iterator[str] = (raw.decode("utf-8", errors="replace") for raw in raws)
    else:
        texts = (text for path in inputs for text in lines(path, strict=False))
    warned = False
    for number, text in enumerate(texts, 1):
        if "\ufffd" in text and not warned:
            warned = True
            warn(f"line {number} is not UTF-8; undecodable bytes become U+FFFD")
        yield text
