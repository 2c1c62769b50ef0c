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

from regard.cli.lines import Tick, input_chunks, run_lines
from regard.data.config import PairsConfig
from regard.data.text import pairs
from regard.data.tokenizer import MASK
from regard.decode.config import Beam, Hypothesis, search_for
from regard.errors import UserError
from regard.exchange.folders import load_any
from regard.metrics.alignment import pharaoh
from regard.progress import say, warn
from regard.tasks.lm.prompt import Prompter
from regard.tasks.lm.runtime import Generator, Stream
from regard.tasks.runnable import Runnable
from regard.tasks.translation.runtime import Translator

if TYPE_CHECKING:
    from regard.tasks.mlm.runtime import Encoder
    from regard.tasks.translation.align import Reading

PROMPTED = ("examples", "labels", "template")


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
    examples: Path | None = None
    labels: str | None = None
    template: str | None = None

    @property
    def prompted(self) -> bool:
        """Whether each line is put into a prompt."""
        return any(vars(self)[name] is not None for name in PROMPTED)


def ready_model(folder: Path, asked: dict[str, Any], *, tag: str | None, **options: Any) -> Any:
    """What is in a folder, ready to run as it was asked."""
    begun, best, ended = ((folder / name).exists() for name in ("plan.json", "config.json", "README.md"))
    if begun and best and not ended:
        warn(f"the training of {folder} has not ended; this is its best model so far")
    loaded = load_any(folder)
    if tag is not None and loaded.task != "translation":
        raise UserError("--tag is for translators of several directions; drop it")
    tagged = {"tag": tag} if tag is not None else {}
    return loaded.spec.runtime(loaded, search=search_for(loaded.search, **asked), **options, **tagged)


def run_model(model: Runnable, inputs: Sequence[Path], output: Path | None, wanted: Wanted) -> None:
    """Lines in, lines out; or, with a prompt, one text, as it grows."""
    make, known, kind = RUNS[model.loaded.task]
    usable = {"num_best", "as_json", *known}
    odd = [name for name, value in vars(wanted).items() if value != vars(Wanted())[name] and name not in usable]
    if odd:
        raise UserError(f"--{odd[0].replace('reading', 'alignment')} is not for {kind}, and this is one")
    if isinstance(model, Generator) and wanted.prompt is not None:
        if inputs or output or wanted.as_json or wanted.score or wanted.prompted:
            others = "--output, --json, --score, --examples, --labels and --template"
            raise UserError(f"--prompt goes on with one text, here; for files, {others} drop it")
        _tell_aloud(model, wanted.prompt, wanted.stop)
        return
    if not wanted.score and wanted.labels is None and isinstance(model, Translator | Generator):
        say(f"engine: {model.engine.about}")
    job = repr((model.name, model.search, getattr(model, "tag", None), wanted))
    if isinstance(model, Generator) and wanted.prompted:
        prompter = _prompter(model, wanted)
        make, job = partial(_told if wanted.labels is None else _chosen, prompter=prompter), job + repr(prompter.shots)
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


def _told(
    model: Generator, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick, prompter: Prompter | None = None
) -> list[str]:
    """What follows each line, or answers it, as a line; or how likely it is: log-probability, tokens, perplexity."""
    if wanted.score:
        scored = model.score(texts)
        if wanted.as_json:
            named = [{"input": text, "log_prob": p, "tokens": n} for text, (p, n) in zip(texts, scored, strict=True)]
            return [json.dumps(each, ensure_ascii=False) for each in named]
        return [f"{p:.4f}\t{n}\t{math.exp(min(-p / max(n, 1), 700)):.4f}" for p, n in scored]
    if wanted.num_best > 1 and not wanted.as_json:
        raise UserError("--nbest gives several outputs a line; add --json to tell them apart")
    prompts, stop = (texts, wanted.stop) if prompter is None else (prompter.prompts(texts, done + 1), prompter.stop)
    say = partial(model.text, stop=stop) if prompter is None else prompter.said
    filled = [prompt for prompt in prompts if prompt.strip()]  # blank in, blank out
    found = iter(model.tell(filled, stop=stop, tick=tick) if filled else [])
    told = [[_hypothesis(h, say(h)) for h in next(found)] if prompt.strip() else [] for prompt in prompts]
    if wanted.as_json:
        return _as_json(texts, told)
    return [" ".join(outputs[0]["text"].split("\n")) if outputs else "" for outputs in told]


def _hypothesis(said: Hypothesis, text: str) -> dict[str, Any]:
    return {"text": text, "log_prob": said.log_prob, "score": said.score}


def _prompter(model: Generator, wanted: Wanted) -> Prompter:
    """What puts the examples before each line."""
    odd = [name for name in ("score", "stop") if getattr(wanted, name) and (name == "score" or wanted.labels)]
    if odd:
        raise UserError(f"--{odd[0]} does not go with {'--labels' if wanted.labels else '--examples'}; use one of them")
    found = pairs(PairsConfig(pairs=str(wanted.examples))) if wanted.examples else ()
    shots = [(pair.source, pair.target) for pair in found]
    labels = None if wanted.labels is None else [label.strip() for label in wanted.labels.split(",")]
    if labels == ["examples"]:
        if not shots:
            raise UserError("--labels examples are the answers in a file; give it by --examples")
        labels = list(dict.fromkeys(answer for _, answer in shots))
    template = None if wanted.template is None else wanted.template.replace("\\n", "\n")
    prompter = Prompter(model, shots, template, labels, warn=warn)
    prompter.stop += wanted.stop
    return prompter


def _chosen(
    model: Generator, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick, prompter: Prompter
) -> list[str]:
    """The likeliest labels of each line, with their probabilities."""
    found = prompter.choose(texts, first=done + 1, tick=tick)
    if wanted.as_json:
        return _as_json(texts, [[choice._asdict() for choice in choices] for choices in found])
    best = [choices[: wanted.num_best] for choices in found]
    return ["\t".join(f"{choice.label}\t{choice.probability:.4f}" for choice in choices) for choices in best]


def _tell_aloud(model: Generator, prompt: str, stop: Sequence[str]) -> None:
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


def _filled(model: Encoder, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    """Each line with its blanks filled, and the likeliest words of each blank; or its vector; or its neighbours."""
    for number, text in enumerate(texts, done + 1):
        if model.is_long(text):
            warn(f"line {number} is longer than {model.max_length} tokens; the rest of it is not read")
    if wanted.near is not None:
        return _neighbours(model, wanted, texts)
    if wanted.vectors:
        return [json.dumps([round(x, 7) for x in row]) for row in model.vectors(texts, tick).tolist()]
    model.check_guesses()
    if not any(MASK in text for text in texts):
        warn(f"nothing to fill: blanks are written {MASK}, as in: The {MASK} barks. Or use --vectors")
    found = model.fill(texts, wanted.num_best, tick)
    if wanted.as_json:
        told = [[[{"word": w, "probability": p} for w, p in blank] for blank in each.blanks] for each in found]
        named = zip(texts, found, told, strict=True)
        return [json.dumps({"input": t, "text": f.text, "blanks": b}, ensure_ascii=False) for t, f, b in named]
    shown = [[" ".join(f"{word} {p:.3f}" for word, p in blank) for blank in each.blanks] for each in found]
    return ["\t".join([each.text, *blanks]) for each, blanks in zip(found, shown, strict=True)]


def _neighbours(model: Encoder, wanted: Wanted, texts: Sequence[str]) -> list[str]:
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


def _answered(model: Runnable, wanted: Wanted, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    from regard.cli.answer import answered
    from regard.tasks.labelled.runtime import Answerer

    assert isinstance(model, Answerer)
    return answered(model, wanted, texts, done, tick)


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
        from regard.tasks.translation.align import line_links

        flat = [output for outputs in found for output in outputs]
        links = iter(line_links(model, flat, reading))
        for made in (each for outputs in told for each in outputs):
            made["alignment"] = pharaoh(next(links))
    return told


RUNS: dict[str, tuple[Callable[..., list[str]], set[str], str]] = {
    # What a model makes of lines, what it can be asked, and what it is.
    "translation": (_translated, {"reading"}, "translators"),
    "lm": (_told, {"score", "prompt", "stop", *PROMPTED}, "language models"),
    "mlm": (_filled, {"vectors", "near"}, "encoders"),
    "bilm": (_filled, {"vectors", "near"}, "encoders"),
}
RUNS |= {task: (_answered, set(), "readers") for task in ("classification", "regression", "choice", "tagging", "spans")}
