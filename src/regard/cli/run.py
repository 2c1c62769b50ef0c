"""`regard run` and `regard attend`: each model's own task on text, or pictures of it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.lines import Tick, input_chunks, run_lines, warn
from regard.decode.config import Beam, Hypothesis
from regard.errors import UserError
from regard.metrics.alignment import pharaoh
from regard.tasks.ready import Ready
from regard.tasks.teller import Stream, Teller
from regard.tasks.translator import Translator

if TYPE_CHECKING:
    from regard.tasks.align import Reading
    from regard.tasks.filler import Filler

BLANK = "[MASK]"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What `regard run` was asked for."""

    num_best: int = 1
    as_json: bool = False
    reading: Reading | None = None
    score: bool = False
    prompt: str | None = None
    stop: tuple[str, ...] = ()
    vectors: bool = False
    near: Path | None = None


def run_model(model: Ready, inputs: Sequence[Path], output: Path | None, wanted: Wanted) -> None:
    """Lines in, lines out; or, with a prompt, one text, as it grows."""
    make, known, kind = RUNS[model.loaded.task]
    usable = {"num_best", "as_json", *known}
    odd = [name for name, value in vars(wanted).items() if value != vars(Wanted())[name] and name not in usable]
    if odd:
        raise UserError(f"--{odd[0].replace('reading', 'alignment')} is not for {kind}, and this is one")
    if isinstance(model, Teller) and wanted.prompt is not None:
        if inputs or output or wanted.as_json or wanted.score:
            raise UserError("--prompt goes on with one text, here; for files, --output, --json and --score drop it")
        _tell_aloud(model, wanted.prompt, wanted.stop)
        return
    if not wanted.score and model.loaded.task != "masked":
        print(f"engine: {model.engine.about}", file=sys.stderr, flush=True)
    job = repr((model.name, model.search, model.shortlist, getattr(model, "tag", None), wanted))
    run_lines(inputs, output, job, partial(make, model, wanted))


def _translated(model: Translator, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    """With a reading, each output is followed by the links of its words: `text ||| 0-0 1-2`."""
    if wanted.num_best > 1 and not wanted.as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    told = _outputs(model, texts, done, wanted.reading, tick)
    if wanted.as_json:
        return _as_json(texts, told)
    made = [outputs[0]["text"] if outputs else "" for outputs in told]
    if wanted.reading is None:
        return made
    links = [outputs[0]["alignment"] if outputs else "" for outputs in told]
    return [f"{text} ||| {link}" for text, link in zip(made, links, strict=True)]


def _as_json(texts: Sequence[str], told: Sequence[Any]) -> list[str]:
    pairs = zip(texts, told, strict=True)
    return [json.dumps({"input": text, "outputs": outputs}, ensure_ascii=False) for text, outputs in pairs]


def _told(model: Teller, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    """What follows each line, as a line; or how likely it is: log-probability, tokens, perplexity."""
    if wanted.score:
        scored = model.score(texts)
        if wanted.as_json:
            named = [{"input": text, "log_prob": p, "tokens": n} for text, (p, n) in zip(texts, scored, strict=True)]
            return [json.dumps(each, ensure_ascii=False) for each in named]
        return [f"{p:.4f}\t{n}\t{math.exp(min(-p / max(n, 1), 700)):.4f}" for p, n in scored]
    if wanted.num_best > 1 and not wanted.as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    filled = [text for text in texts if text.strip()]  # blank in, blank out
    found = iter(model.tell(filled, stop=wanted.stop, tick=tick) if filled else [])
    told = [[_hypothesis(model, h, wanted) for h in next(found)] if text.strip() else [] for text in texts]
    if wanted.as_json:
        return _as_json(texts, told)
    return [" ".join(outputs[0]["text"].split("\n")) if outputs else "" for outputs in told]


def _hypothesis(model: Teller, said: Hypothesis, wanted: Wanted) -> dict[str, Any]:
    return {"text": model.text(said, wanted.stop), "log_prob": said.log_prob, "score": said.score}


def _tell_aloud(model: Teller, prompt: str, stop: Sequence[str]) -> None:
    """The prompt and what follows it, as it grows."""
    stream = Stream(_say, stop)
    _say(prompt)
    heard = None if isinstance(model.search, Beam) else stream  # a beam changes its mind
    ((best, *_),) = model.tell([prompt], stop=stop, heard=heard)
    stream.end(model.text(best, stop))
    _say("\n")


def _say(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "replace").decode())
    sys.stdout.flush()


def _filled(model: Filler, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    """Each line with its blanks filled, and the likeliest words of each blank; or its vector; or its neighbours."""
    for number, text in enumerate(texts, done + 1):
        if model.is_long(text):
            warn(f"line {number} is longer than {model.max_length} tokens; the rest of it is not read")
    if wanted.near is not None:
        return _neighbours(model, wanted, texts)
    if wanted.vectors:
        return [json.dumps([round(x, 7) for x in row]) for row in model.vectors(texts, tick).tolist()]
    if not any(BLANK in text for text in texts):
        warn(f"nothing to fill: blanks are written {BLANK}, as in: The {BLANK} barks. Or use --vectors")
    found = model.fill(texts, wanted.num_best, tick)
    if wanted.as_json:
        told = [[[{"word": w, "probability": p} for w, p in blank] for blank in each.blanks] for each in found]
        named = zip(texts, found, told, strict=True)
        return [json.dumps({"input": t, "text": f.text, "blanks": b}, ensure_ascii=False) for t, f, b in named]
    shown = [[" ".join(f"{word} {p:.3f}" for word, p in blank) for blank in each.blanks] for each in found]
    return ["\t".join([each.text, *blanks]) for each, blanks in zip(found, shown, strict=True)]


def _neighbours(model: Filler, wanted: Wanted, texts: Sequence[str]) -> list[str]:
    """The lines of a file that are nearest to each text, with the cosine of the angle between."""
    assert wanted.near is not None
    others = [text for chunk in input_chunks([wanted.near]) for text in chunk if text.strip()]
    if not others:
        raise UserError(f"{wanted.near}: holds no line to be near to; give a file with text")
    near = (model.vectors(texts) @ model.vectors(others).T).topk(min(wanted.num_best, len(others)))
    pairs = zip(near.indices.tolist(), near.values.tolist(), strict=True)
    found = [[(others[i], cosine) for i, cosine in zip(*both, strict=True)] for both in pairs]
    if wanted.as_json:
        return _as_json(texts, [[{"text": text, "cosine": cosine} for text, cosine in each] for each in found])
    return ["\t".join(f"{text}\t{cosine:.3f}" for text, cosine in each) for each in found]


def _outputs(
    model: Translator, texts: Sequence[str], done: int, reading: Reading | None, tick: Tick
) -> list[list[dict[str, Any]]]:
    """What the model says to each text, with a warning where it was translated in parts or cut."""
    found = model.outputs(texts, tick)
    for number, outputs in enumerate(found, done + 1):
        if outputs and len(outputs[0].parts) > 1:
            many = f"it was translated in {len(outputs[0].parts)} parts"
            warn(f"line {number} is longer than {model.max_length} tokens; {many}")
        if outputs and outputs[0].cut:
            warn(f"line {number}: the output reached its limit of tokens and may lack its end")
    told = [[{"text": o.text, "score": o.score, "log_prob": o.log_prob} for o in outputs] for outputs in found]
    if reading is not None:
        from regard.tasks.align import line_links

        flat = [output for outputs in found for output in outputs]
        links = iter(line_links(model, flat, reading))
        for made in (each for outputs in told for each in outputs):
            made["alignment"] = pharaoh(next(links))
    return told


RUNS: dict[str, tuple[Callable[..., list[str]], set[str], str]] = {
    # What a model makes of lines, what it can be asked, and what it is.
    "translation": (_translated, {"reading"}, "translators"),
    "language": (_told, {"score", "prompt", "stop"}, "language models"),
    "masked": (_filled, {"vectors", "near"}, "encoders"),
}
