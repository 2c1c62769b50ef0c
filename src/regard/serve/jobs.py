"""What a worker does with its model when it is told to."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any

from regard.decode.config import Beam, search_for
from regard.engine.native import NativeEngine
from regard.errors import UserError
from regard.tasks.lm.runtime import Generator, Stream
from regard.tasks.translation.runtime import Output, Translator

Job = dict[str, Any]
Tick = Callable[..., None]
Part = Callable[[dict[str, Any]], None]


def described(model: Any) -> dict[str, Any]:
    """What the service says of a model; its engine is made and tried, so that no request waits for that."""
    if isinstance(model, Translator):
        model.tag = next(iter(model.tokenizers.source.tags), None)
        model.hypotheses(["a"])
    elif isinstance(model, Generator):
        model.prompts(["a"])
    else:
        raise UserError(f"{model.loaded.folder}: is for {model.loaded.task}, which is not served; use `regard run`")
    own, engine = model.loaded.search, model.engine
    lanes = engine.threads if isinstance(engine, NativeEngine) else 1
    about = {"task": model.loaded.task, "engine": engine.about, "max_length": model.max_length, "lanes": lanes}
    return {**about, "beam": own.size if isinstance(own, Beam) else 1, "tags": list(model.tokenizers.source.tags)}


def alone_of(model: Any) -> Any:
    """The model for a job beside which others are done: on one thread, if its engine can do several at once."""
    made = copy(model)
    if isinstance(model.engine, NativeEngine):
        made.engine = model.engine.on_one_thread()
    return made


def translate(model: Translator, job: Job, tick: Tick, part: Part) -> list[Any]:
    """For each line its outputs, best first; none for a blank one."""
    options = model.options({"beam": job["beam"], "num_best": job["best"], "tag": job["tag"]})
    return [[_told(model, output) for output in outputs] for outputs in model.outputs(job["texts"], options, tick)]


def _told(model: Translator, output: Output) -> dict[str, Any]:
    pieces = [piece for tokens in output.tokens for piece in model.tokenizers.target.pieces(tokens)]
    lists = {"tokens": pieces, "parts": output.parts, "ids": output.tokens}
    return {"text": output.text, "score": output.score, "log_prob": output.log_prob, **lists}


def align(model: Translator, job: Job, tick: Tick, part: Part) -> list[str]:
    """Links between the words of each text and those of its output, as 0-0 1-2; in the parts that were translated."""
    from regard.metrics.alignment import pharaoh
    from regard.tasks.translation.align import Reading, line_links

    model.tag = job["tag"]
    outputs = [Output("", 0.0, 0.0, parts, ids, cut=False) for parts, ids in job["said"]]
    sources = sum(len(ids) for each in outputs for ids in model.tokenizers.read(each.parts, model.tag))
    targets = sum(len(ids) for each in outputs for ids in each.tokens)
    most = job["multiplications"] // sum(p.numel() for p in model.model.parameters())
    if sources + targets > most:
        counts = f"{sources:,} tokens of the texts and {targets:,} of the outputs"
        raise UserError(f"alignment: {counts} are more than the {most:,} aligned at once by this model; send less")
    found = []
    for links in line_links(model, outputs, Reading.of(model.loaded.folder)):
        tick()
        found.append(pharaoh(links))
    return found


def detect(model: Translator, job: Job, tick: Tick, part: Part) -> list[float]:
    """How many tokens of the model's source language a character of each text takes: fewer fit better."""
    rows = model.tokenizers.source.encode(job["texts"])
    return [len(row) / max(1, len(text)) for row, text in zip(rows, job["texts"], strict=True)]


def tell(model: Generator, job: Job, tick: Tick, part: Part) -> list[Any]:
    """What follows each prompt, `best` times, by seeds that follow one another; in parts, where they are wanted."""
    found: list[Any] = []
    for prompt in job["texts"]:
        for nth in range(job["best"]):
            drawn = {name: job[name] for name in ("temperature", "top_p", "top_k")} | {"seed": job["seed"] + nth}
            how: Job = {"sample": True, "beam": None, **drawn} if job["temperature"] else {"sample": False, "beam": 1}
            model.search = search_for(model.loaded.search, num_best=1, max_tokens=job["tokens"], **how)
            found.append(_say(model, prompt, job, tick, part, len(found)))
    return found


def _say(model: Generator, prompt: str, job: Job, tick: Tick, part: Part, index: int) -> dict[str, Any]:
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
    read = len(model.prompts([prompt])[0])
    return {"text": text, "finish": "stop" if ended else "length", "read": read, "tokens": best.tokens}


def likely(model: Generator, job: Job, tick: Tick, part: Part) -> dict[str, Any]:
    """How probable each token of an output was after its prompt, and what else was; of a text that was stopped, up to
    there."""
    from regard.engine.explain import likelihood

    (prompt,), said = model.prompts(job["texts"]), job["said"]
    spelled = [model.spell(said[:i]) for i in range(len(said) + 1)]
    kept = sum(len(text) < job["size"] for text in spelled[:-1])
    if not kept:
        return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    log_probs, others = likelihood(model.model, [*prompt, *said[:kept]], kept)
    steps = [[(model.spell([word]), math.log(p)) for word, p in step[: job["count"]]] for step in others]
    texts = [spelled[i + 1][len(spelled[i]) :] for i in range(kept)]
    chances = {"token_logprobs": log_probs.tolist(), "top_logprobs": [dict(step) for step in steps]}
    return {"tokens": texts, **chances, "text_offset": [len(text) for text in spelled[:kept]]}


def look(model: Any, job: Job, tick: Tick, part: Part) -> dict[str, Any]:
    """What it looked at while it said what it said, or would have said what is given."""
    (text,) = job["texts"]
    if job["tag"] is not None:
        model.tag = job["tag"]
    found: dict[str, Any] = model.attend(text, job["target"], shown=job["weights"]).page(job["weights"])
    return found


JOBS: dict[str, Callable[..., Any]] = {act.__name__: act for act in (translate, tell, detect, likely, look, align)}
