"""How good a translator is: by references, by the likelihood of given targets, by gold alignments."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.text import Pair, lines
from regard.errors import UserError
from regard.files import write
from regard.metrics.alignment import parse, pharaoh
from regard.metrics.resample import paired_bootstrap
from regard.metrics.text import METRICS, References, word_error_rate
from regard.progress import Progress
from regard.tasks.options import Texts
from regard.tasks.runnable import Evaluation
from regard.tasks.translation.align import Aligned, Reading
from regard.tasks.translation.config import TranslationEvaluation

if TYPE_CHECKING:
    from regard.tasks.translation.runtime import Translator


def evaluate(model: "Translator", options: TranslationEvaluation) -> Evaluation:
    assert options.source is not None
    if options.tag is not None:
        model.tag = options.tag
    others = [path for path in (options.alignment, options.against) if path is not None]
    items = [*model.tokenizers.source.lines(options.source)]
    sources, *read = _read(items, [options.source, *options.target, *others])
    targets, rest = read[0], read[len(options.target) :]
    if options.alignment is not None:
        return _alignment(model, options, sources, targets, rest[0])
    if options.score:
        log_probs, tokens = model.score(sources, targets)
        _write(options.output, [f"{log_prob:.6f}" for log_prob in log_probs])
        nats = -float(log_probs.sum()) / tokens
        data = {"sentences": len(sources), "tokens": tokens, "nats_per_token": nats, "perplexity": float(np.exp(nats))}
        return Evaluation.of(data)
    search = model.options({"beam": options.beam}).search(model.search)
    with Progress(len(sources), "translate") as progress:
        pairs = [Pair(*both, model.tag, number) for number, both in enumerate(zip(sources, targets, strict=True), 1)]
        outputs = model.best_of(pairs, progress.update, search)
    _write(options.output, outputs)
    if options.pronunciations:
        phones = [[" ".join(way.split()) for way in ways.split("\t")] for ways in targets]
        wrong = sum(" ".join(said.split()) not in ways for said, ways in zip(outputs, phones, strict=True))
        rate = word_error_rate(outputs, phones).value
        return Evaluation.of({"words": len(sources), "word_error_rate": wrong / len(sources), "phone_error_rate": rate})
    references = list(zip(*read[: len(options.target)], strict=True))
    return _scores(options, outputs, references, rest)


def _scores(
    options: TranslationEvaluation, outputs: Texts, references: References, others: list[list[str]]
) -> Evaluation:
    names = ["bleu_tokenized" if options.tokenized else "bleu", "chrf", "exact_match", "word_error_rate"]
    scores = [METRICS[name][0](outputs, references) for name in names]
    rows = [f"{s.name:15} {s.value:6.2f}   {s.signature or ''}".rstrip() for s in scores]
    data: dict[str, Any] = {"sentences": len(outputs)}
    data |= {s.name: {"value": s.value, "signature": s.signature} for s in scores}
    for other in others:
        for name in names[:2]:
            c = paired_bootstrap(other, outputs, references, name)
            data[f"{name}_against"] = asdict(c)
            rows.append(
                f"{name:15} {c.difference:+6.2f}   against {options.against} with {c.first:.2f}; "
                f"95 % from {c.low:+.2f} to {c.high:+.2f}, p = {c.p_value:.3f} (paired bootstrap, 1,000 samples)"
            )
    return Evaluation(data, rows)


def _alignment(
    model: "Translator", options: TranslationEvaluation, sources: list[str], targets: list[str], gold: list[str]
) -> Evaluation:
    """By the head that is kept with the model, or one that is chosen and kept now."""
    folder, choose = model.loaded.folder, options.choose_head
    links = [parse(line, f"{options.alignment}, line {number}") for number, line in enumerate(gold, 1)]
    with Progress(len(sources), "align") as progress:
        aligned = Aligned(model, sources, model.spelled(targets), progress.update)
    reading = aligned.best(links)[0] if choose else Reading.of(folder)
    rate = aligned.error_rate(links, reading)
    if choose:
        reading.keep(folder)
    _write(options.output, [pharaoh(aligned.links(i, reading)) for i in range(len(sources))])
    data = {"sentences": len(sources), "alignment_error_rate": rate, **asdict(reading), "chosen": choose}
    note = ", chosen on these very sentences" if choose else ""
    return Evaluation(data, [f"alignment error rate {rate:.4f}   {reading}{note}"])


def _write(path: Path | None, rows: Sequence[str]) -> None:
    if path is not None:
        write(path, "".join(f"{row}\n" for row in rows).encode())


def _read(first: list[str], paths: Sequence[Path]) -> list[list[str]]:
    """Items and the lines of files that belong to them line by line; undecodable bytes become U+FFFD."""
    read = [first, *(list(lines(path, strict=False)) for path in paths[1:])]
    for path, texts in zip(paths, read, strict=True):
        if len(texts) != len(read[0]):
            raise UserError(f"{paths[0]} has {len(read[0])} lines and {path} {len(texts)}; lines n belong together")
    if not read[0]:
        raise UserError(f"{paths[0]}: the file is empty; give one with a sentence on each line")
    return read
