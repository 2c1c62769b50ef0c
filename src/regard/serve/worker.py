"""The process that holds a model and decodes, one job after another.

    python -m regard.serve.worker       (started by the service; messages on standard input and output)

A message is a line of JSON. A job is one with a number; parts of an answer and the answer carry that number. The worker
ends with its input.
"""

import json
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from copy import copy
from typing import Any, BinaryIO

from regard import load
from regard.decode.config import Beam
from regard.engine.native import NativeEngine
from regard.errors import UserError
from regard.tasks.lm.runtime import Generator, Stream
from regard.tasks.runnable import Runnable
from regard.tasks.translation.runtime import Output, Translator

BEAT = 0.5  # seconds
MANY = 64  # more jobs than can be in work at once
Job = dict[str, Any]
Tick = Callable[..., None]
Part = Callable[[dict[str, Any]], None]


def opened(folder: str, **options: Any) -> Runnable:
    """A model whose requests name no files of this machine."""
    return load(folder, files=False, **options)


def described(model: Runnable) -> dict[str, Any]:
    """What the service says of a model, which is ready then, so that no request waits for that."""
    spec, own, about = model.loaded.spec, model.loaded.search, model.served()
    lanes = engine.threads if isinstance(engine := vars(model).get("engine"), NativeEngine) else 1
    common = {"task": spec.name, "verbs": [*spec.verbs], "engine": "torch, float32", "max_length": model.max_length}
    common |= {"lanes": lanes, "beam": own.size if isinstance(own, Beam) else 1}
    common |= {"tokens": 0, "parts": 1, "reads": "a text", "options": {}, **about}
    return common if model.front is None else {**common, "reads": f"{model.front.such}, a line for each"}


def alone_of(model: Any) -> Any:
    """The model for a job beside which others are done: on one thread, if its engine can do several at once."""
    alone, engine = copy(model), vars(model).get("engine")
    if isinstance(engine, NativeEngine):
        alone.engine = engine.on_one_thread()
    return alone


def run(model: Runnable, job: Job, tick: Tick, part: Part) -> list[Job]:
    """For each text its line and its JSON, as `regard run` prints them."""
    predictions = model.predict(job["texts"], model.options(job["options"]), tick=tick)
    return [{"line": each.line, **each.data} for each in predictions]


def embed(model: Any, job: Job, tick: Tick, part: Part) -> list[tuple[list[float], int]]:
    """For each text its vector, and how many tokens of it were read, which have to be all."""
    counts = [len(model.read(text)) for text in job["texts"]]
    if long := next((number for number, count in enumerate(counts, 1) if count >= model.max_length), 0):
        raise UserError(f"text {long} fills all {model.max_length:,} tokens that are read, or more; send it in parts")
    return list(zip(model.embed(job["texts"], tick).tolist(), counts, strict=True))


def translate(model: Translator, job: Job, tick: Tick, part: Part) -> list[Any]:
    """For each line its outputs, best first; none for a blank one."""
    options = model.options({"beam": job["beam"], "num_best": job["best"], "tag": job["tag"]})

    def as_data(output: Output) -> Job:
        pieces = [piece for tokens in output.tokens for piece in model.tokenizers.target.pieces(tokens)]
        return {**output.data(), "tokens": pieces, "parts": output.parts, "ids": output.tokens}

    return [list(map(as_data, outputs)) for outputs in model.outputs(job["texts"], options, tick)]


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
    links = []
    for link in line_links(model, outputs, Reading.of(model.loaded.folder)):
        tick()
        links.append(pharaoh(link))
    return links


def detect(model: Translator, job: Job, tick: Tick, part: Part) -> list[float]:
    """How many tokens of the model's source language a character of each text takes: fewer fit better."""
    rows = model.tokenizers.text.encode(job["texts"])
    return [len(row) / max(1, len(text)) for row, text in zip(rows, job["texts"], strict=True)]


def tell(model: Generator, job: Job, tick: Tick, part: Part) -> list[Any]:
    """What follows each prompt, `best` times, by seeds that follow one another; in parts, where they are wanted."""
    stop, drawn = job["stop"], {name: job[name] for name in ("temperature", "top_p", "top_k")}
    outputs: list[Any] = []

    def put(text: str) -> None:
        if job["stream"]:
            part({"index": len(outputs), "text": text})

    def heard(text: str) -> None:
        tick()
        stream(text)

    for prompt in job["texts"]:
        for seed in range(job["seed"], job["seed"] + job["best"]):
            how: Job = {"sample": True, **drawn, "seed": seed} if job["temperature"] else {"beam": 1}
            search = model.options({"max_tokens": job["tokens"], **how}).search(model.loaded.search)
            stream = Stream(put, stop)
            ((best, *_),) = model.tell([prompt], stop=stop, heard=heard, search=search)
            text = model.text(best, stop)
            stream.end(text)
            ended = best.tokens[-1:] == [model.end] or text != model.spell(best.tokens)
            read, finish = len(model.prompts([prompt], search)[0]), "stop" if ended else "length"
            outputs.append({"text": text, "finish": finish, "read": read, "tokens": best.tokens})
    return outputs


def likely(model: Generator, job: Job, tick: Tick, part: Part) -> dict[str, Any]:
    """How probable each token of an output was after its prompt, and what else was; of a stopped text, up to there."""
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
    return model.attend(text, job["target"], shown=job["weights"]).page(job["weights"])


ACTS = (run, embed, translate, tell, detect, likely, look, align)
JOBS: dict[str, Callable[..., Any]] = {act.__name__: act for act in ACTS}


class Worker:
    def __init__(self, given: BinaryIO, taken: BinaryIO) -> None:
        self.given, self.taken = given, taken
        self.jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.dropped: set[int] = set()
        self.lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            self.taken.write(json.dumps(message).encode() + b"\n")
            self.taken.flush()

    def receive(self) -> Any:
        """The next message, or None at the end."""
        line = self.given.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def run(self) -> None:
        settings = self.receive()
        if settings is None:
            return
        try:
            self.model = opened(settings["folder"], engine=settings["engine"], threads=settings["threads"])
            about = described(self.model)
        except UserError as error:
            self.send({"refused": str(error)})
        except ModuleNotFoundError as error:
            self.send({"refused": f"{settings['folder']}: this needs {error.name}: pip install 'regard[train]'"})
        else:
            self.send({"ready": about})
            self.start(about["lanes"])

    def start(self, lanes: int) -> None:
        """Work until the service is gone."""
        for act in (self._beat, *[self._work] * lanes):
            threading.Thread(target=act, daemon=True).start()
        while (message := self.receive()) is not None:
            if "drop" in message:
                self.dropped.add(message["drop"])
            else:
                self.jobs.put(message)
        os._exit(0)

    def _beat(self) -> None:
        while True:
            self.send({"alive": True})
            time.sleep(BEAT)

    def _work(self) -> None:
        """One of the lanes, with models of its own, as a job changes how they search."""
        try:
            whole, alone = copy(self.model), alone_of(self.model)
            while True:
                job = self.jobs.get()
                self._do(job, alone if job["alone"] else whole)
        except BaseException:  # the worker is replaced then
            traceback.print_exc()
            os._exit(1)

    def _do(self, job: dict[str, Any], model: Any) -> None:
        number, last = job["number"], 0.0

        def tick(*_: Any) -> None:
            nonlocal last
            if number in self.dropped:
                raise UserError("nobody waits for this any more")
            if time.monotonic() > last + BEAT:
                last = time.monotonic()
                self.send({"number": number, "progress": True})

        def part(piece: dict[str, Any]) -> None:
            tick()
            self.send({"number": number, "part": piece})

        try:
            tick()
            answer = {"answer": JOBS[job["do"]](model, job, tick, part)}
        except UserError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "there is not enough memory for this"}
        self.dropped = {each for each in self.dropped if each > number - MANY}
        self.send({"number": number, **answer})


def main() -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the service says when to end
    taken = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no message
    Worker(sys.stdin.buffer, taken).run()


if __name__ == "__main__":
    main()
