"""What a worker does with a model when it is told to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.decode.config import Beam, Greedy, Sample, Search
from regard.errors import UserError
from regard.tasks.teller import Stream, Teller
from regard.tasks.translator import Output, Translator

Job = dict[str, Any]
Tick = Callable[..., None]
Part = Callable[[dict[str, Any]], None]


def described(model: Any) -> dict[str, Any]:
    """What the service says of a model; the engine is made for it, so that the first request finds it."""
    if isinstance(model, Translator):
        model.translate(["a"])
    elif isinstance(model, Teller):
        model.prompts(["a"])
    else:
        raise UserError(f"{model.loaded.folder}: fills blanks, which is not served; `regard run` does it")
    own = model.loaded.search
    return {
        "task": model.loaded.task,
        "engine": model.engine.about,
        "beam": own.size if isinstance(own, Beam) else 1,
        "max_length": model.max_length,
    }


def translate(model: Translator, job: Job, tick: Tick, part: Part) -> list[Any]:
    """For each line its outputs, best first; none for a blank one."""
    size, model.tag = max(job["beam"], job["best"]), job["tag"]
    own = model.loaded.search
    given = {"max_length": own.max_length, "max_ratio": own.max_ratio, "never": own.never}
    beam = replace(own, size=size, num_best=job["best"]) if isinstance(own, Beam) else Beam(**given, size=size)
    model.search = beam if size > 1 else Greedy(**given)
    return [[_told(model, output) for output in outputs] for outputs in model.outputs(job["texts"], tick)]


def _told(model: Translator, output: Output) -> dict[str, Any]:
    pieces = [piece for tokens in output.tokens for piece in model.tokenizers.target.pieces(tokens)]
    return {"text": output.text, "score": output.score, "log_prob": output.log_prob, "tokens": pieces}


def align(model: Translator, job: Job, tick: Tick, part: Part) -> list[str]:
    """Links between the words of each text and those of its output, as 0-0 1-2."""
    from regard.metrics.alignment import pharaoh
    from regard.tasks.align import Aligned, Reading

    aligned, reading = Aligned(model, job["texts"], model.spelled(job["said"])), Reading.of(model.loaded.folder)
    return [pharaoh(aligned.links(i, reading)) for i in range(len(job["texts"]))]


def detect(model: Translator, job: Job, tick: Tick, part: Part) -> list[float]:
    """How many tokens of the model's source language a character of each text takes: fewer fit better."""
    rows = model.tokenizers.source.encode(job["texts"])
    return [len(row) / max(1, len(text)) for row, text in zip(rows, job["texts"], strict=True)]


def tell(model: Teller, job: Job, tick: Tick, part: Part) -> list[Any]:
    """What follows each prompt, `best` times, by seeds that follow one another; in parts, where they are wanted."""
    found = []
    for prompt in job["texts"]:
        for nth in range(job["best"]):
            model.search = _drawn(model.loaded.search, job, nth)
            said = _say(model, prompt, job, tick, part, len(found))
            found.append(said)
    return found


def _drawn(own: Search, job: Job, nth: int) -> Search:
    given: dict[str, Any] = {"max_length": job["tokens"], "never": own.never}
    if job["temperature"] == 0:
        return Greedy(**given)
    drawn = {"temperature": job["temperature"], "top_p": job["top_p"], "top_k": job["top_k"], "seed": job["seed"] + nth}
    return Sample(**given, **drawn)


def _say(model: Teller, prompt: str, job: Job, tick: Tick, part: Part, index: int) -> dict[str, Any]:
    stop = job["stop"]
    stream = Stream(lambda text: part({"index": index, "text": text}), stop)

    def heard(text: str) -> None:
        tick()
        if job["stream"]:
            stream(text)

    ((best, *_),) = model.tell([prompt], stop=stop, heard=heard)
    text = model.text(best, stop)
    if job["stream"]:
        stream.end(text)
    ended = best.tokens[-1:] == [model.end] or text != model.spell(best.tokens)
    return {
        "text": text,
        "finish": "stop" if ended else "length",
        "read": len(model.prompts([prompt])[0]),
        "said": len(best.tokens),
        "log_prob": best.log_prob,
    }


def likely(model: Teller, job: Job, tick: Tick, part: Part) -> dict[str, Any]:
    """How probable each token of a text was after a prompt, and what else was."""
    from regard.engine.explain import explain_text

    (prompt,) = model.prompts(job["texts"])
    (said,) = model.tokenizer.encode([job["said"]], spaced=False)
    if not said:
        return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    told = explain_text(model.model, [*prompt, *said])
    spelled = [model.spell(said[:i]) for i in range(len(said) + 1)]
    words = [spelled[i + 1][len(spelled[i]) :] for i in range(len(said))]
    tops = [
        {model.spell([word]): math.log(p) for word, p in step[: job["count"]]} for step in told.likely[-len(said) :]
    ]
    offsets = [len(job["texts"][0]) * job["echo"] + len(text) for text in spelled[:-1]]
    found = {"tokens": words, "token_logprobs": told.log_probs[-len(said) :].tolist()}
    return {**found, "top_logprobs": tops, "text_offset": offsets}


def look(model: Any, job: Job, tick: Tick, part: Part) -> dict[str, Any]:
    """What it looked at while it said what it said, or would have said what is given."""
    (text,) = job["texts"]
    found: dict[str, Any] = model.attend(text, job["target"]).page(job["weights"])
    return found


JOBS: dict[str, Callable[..., Any]] = {
    "translate": translate,
    "tell": tell,
    "detect": detect,
    "likely": likely,
    "look": look,
    "align": align,
}
