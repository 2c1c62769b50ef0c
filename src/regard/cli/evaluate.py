"""`regard evaluate`: scores that can be trusted, and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import exp
from pathlib import Path

import numpy as np

from regard.cli.lines import input_chunks
from regard.data.config import RunningText
from regard.data.documents import pieces
from regard.errors import UserError
from regard.files import write
from regard.metrics.alignment import parse, pharaoh
from regard.metrics.resample import paired_bootstrap
from regard.metrics.text import METRICS, pronunciation_error_rate
from regard.progress import Progress
from regard.tasks.bilm.task import tell_both_ways
from regard.tasks.lm.runtime import Generator
from regard.tasks.lm.task import nats
from regard.tasks.mlm.runtime import Encoder
from regard.tasks.mlm.task import Blanks, guess_blanks
from regard.tasks.running_text import Text, Tick, text_of
from regard.tasks.translation.align import Aligned, Reading
from regard.tasks.translation.runtime import Translator


def evaluate_files(
    model: Translator, files: Sequence[Path], tokenized: bool, output: Path | None, as_json: bool
) -> None:
    """Files: sources, references, and another system's outputs if those are to be compared with."""
    sources, references, *others = _aligned(files)
    outputs = _translated(model, sources, output)
    names = ["bleu_tokenized" if tokenized else "bleu", "chrf", "exact_match", "word_error_rate"]
    scores = [METRICS[name][0](outputs, references) for name in names]
    compared = {name: paired_bootstrap(other, outputs, references, name) for other in others for name in names[:2]}
    if as_json:
        described = {s.name: {"value": s.value, "signature": s.signature} for s in scores}
        told = {f"{name}_against": asdict(c) for name, c in compared.items()}
        print(json.dumps({"sentences": len(sources), **described, **told}))
        return
    for s in scores:
        print(f"{s.name:15} {s.value:6.2f}   {s.signature or ''}".rstrip())
    for name, c in compared.items():
        print(
            f"{name:15} {c.difference:+6.2f}   against {files[2]} with {c.first:.2f}; "
            f"95 % from {c.low:+.2f} to {c.high:+.2f}, p = {c.p_value:.3f} (paired bootstrap, 1,000 samples)"
        )


def pronounce_files(model: Translator, files: Sequence[Path], output: Path | None, as_json: bool) -> None:
    """Files: words, and the ways to say each, with tabs between."""
    words, ways = _aligned(files)
    found = asdict(pronunciation_error_rate(_translated(model, words, output), [way.split("\t") for way in ways]))
    told = {"words": len(words), "word_error_rate": found["words"], "phone_error_rate": found["phones"]}
    _tell(told, as_json)


def evaluate_text(model: Generator | Encoder, path: Path, as_json: bool) -> None:
    """By a whole text."""
    text = text_of(model.tokenizer, list(pieces([RunningText(file=str(path))], "file")))
    if not text.characters:
        raise UserError(f"{path}: the file is empty; give one with text")
    with Progress(len(text.ids), "read") as progress:
        tick = progress.update
        found = _perplexity(model, text, tick) if isinstance(model, Generator) else _guesses(model, text, tick)
        tick(len(text.ids))
    _tell(found, as_json)


def _perplexity(model: Generator, text: Text, tick: Tick) -> dict[str, float]:
    """By tokens, characters and words, line ends being words, as published figures have it."""
    lost, tokens = nats(model.model, text.ids, model.max_length, rows=8, tick=tick), len(text.ids) - 1
    found = {"tokens": tokens, "loss": lost / tokens, "per_character": lost / text.characters}
    return {**found, "perplexity": exp(lost / tokens), "word_perplexity": exp(min(lost / text.words, 700.0))}


def _guesses(model: Encoder, text: Text, tick: Tick) -> dict[str, float]:
    """How well words are guessed that are taken out, the same at every call; or told from either side."""
    ids = text.ids[1:]
    if model.loaded.task == "bilm":
        return {"tokens": len(ids), **tell_both_ways(model.model, ids, model.max_length, 8, tick)}
    model.check_guesses()
    pairs = model.model.config.next_sentence
    blanks = Blanks(model.tokenizer, context=model.max_length, pairs=pairs)
    return {"tokens": len(ids), **guess_blanks(model.model, blanks, ids, 8, tick)}


def _tell(told: dict[str, float], as_json: bool) -> None:
    lines = (f"{name:16} {value:{'10,' if isinstance(value, int) else '10.4f'}}" for name, value in told.items())
    print(json.dumps(told) if as_json else "\n".join(lines))


def _translated(model: Translator, sources: Sequence[str], output: Path | None) -> list[str]:
    with Progress(len(sources), "translate") as progress:
        found = model.translate(sources, progress.update)
    outputs = [model.text(hypotheses[0]) if hypotheses else "" for hypotheses in found]
    if output is not None:
        write(output, "".join(f"{line}\n" for line in outputs).encode())
    return outputs


def score_files(model: Translator, files: Sequence[Path], output: Path | None, as_json: bool) -> None:
    sources, targets = _aligned(files)
    found, tokens = model.score(sources, targets)
    if output is not None:
        write(output, "".join(f"{log_prob:.6f}\n" for log_prob in found).encode())
    each = -float(found.sum()) / tokens
    told = {"sentences": len(sources), "tokens": tokens, "nats_per_token": each, "perplexity": float(np.exp(each))}
    _tell(told, as_json)


def align_files(
    model: Translator, folder: Path, files: Sequence[Path], output: Path | None, choose: bool, as_json: bool
) -> None:
    """Files: sources, targets and gold links; the head is the one kept with the model, or is chosen and kept now."""
    sources, targets, gold = _aligned(files)
    wanted = [parse(line, f"{files[2]}, line {number}") for number, line in enumerate(gold, 1)]
    with Progress(len(sources), "align") as progress:
        aligned = Aligned(model, sources, model.spelled(targets), progress.update)
    reading = aligned.best(wanted)[0] if choose else Reading.of(folder)
    rate = aligned.error_rate(wanted, reading)
    if choose:
        reading.keep(folder)
    if output is not None:
        write(output, "".join(f"{pharaoh(aligned.links(i, reading))}\n" for i in range(len(sources))).encode())
    if as_json:
        print(
            json.dumps({"sentences": len(sources), "alignment_error_rate": rate, **asdict(reading), "chosen": choose})
        )
    else:
        print(f"alignment error rate {rate:.4f}   {reading}" + (", chosen on these very sentences" if choose else ""))


def _aligned(paths: Sequence[Path]) -> list[list[str]]:
    read = [[text for chunk in input_chunks([path]) for text in chunk] for path in paths]
    first = read[0]
    for path, texts in zip(paths, read, strict=True):
        if len(texts) != len(first):
            raise UserError(f"{paths[0]} has {len(first)} lines and {path} {len(texts)}; lines n belong together")
    if not first:
        raise UserError(f"{paths[0]}: the file is empty; give one with a sentence on each line")
    return read
