"""Little models, and a service of them in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import httpx2

from regard.data.config import TokenizerConfig
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Sample
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentConfig, TransformerConfig
from regard.serve.app import app
from regard.serve.config import Limits
from regard.serve.desk import Desk, RefusedError, Task
from regard.serve.house import House, Place
from regard.serve.worker import JOBS, described, opened
from regard.tasks.folder import save_model, save_tokenizers

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
TEXTS = ["a cat sees a dog", "the dog sleeps", "a bird", "the cat sees the bird and the dog"]
WORDS = [*TEXTS, "eine Katze sieht einen Hund", "der Hund schläft", "ein Vogel"]
SIZES: dict[str, Any] = {"width": 32, "num_heads": 4, "hidden": 48}


def make_model(folder: Path, kind: str = "transformer", tags: tuple[str, ...] = ()) -> Path:
    """Trained on nothing: it says something, always the same."""
    words = Tokenizer.train(iter(WORDS * 3), TokenizerConfig(kind="bpe", vocabulary=320), tags)
    both = {"source_vocabulary": words.vocabulary, "target_vocabulary": words.vocabulary}
    folder.mkdir(parents=True)
    save_tokenizers(folder, Tokenizers(words, words))
    if kind == "language":
        made = build(GptConfig(vocabulary=words.vocabulary, num_layers=2, **SIZES), 3)
        save_model(folder, made, "lm", Sample(max_length=20), 64, {})
        return folder
    if kind == "transformer":
        config: Any = TransformerConfig(**both, **SIZES, encoder_layers=2, decoder_layers=2, tied="all")
    else:
        config = RecurrentConfig(**both, embedding=16, width=24, tied="none")
    save_model(folder, build(config, 3), "translation", Beam(size=3, max_length=9), 40, {})
    return folder


class Here(Desk):
    """Without a worker: what is asked is done by this very process."""

    async def open(self) -> None:
        self.runtime = opened(self.folder)
        self.model, self.signed = described(self.runtime), inf

    async def result(self, task: Task) -> Any:
        self.waiting.clear()
        job = json.loads(json.dumps({**task.how, "texts": task.texts}))
        try:
            answer = JOBS[job["do"]](self.runtime, job, lambda *_: None, lambda part: None)
        except UserError as error:
            raise RefusedError(400, str(error)) from error
        return json.loads(json.dumps(answer))


def answers(folder: Path, *asked: tuple[str, dict[str, Any]]) -> list[tuple[int, Any]]:
    """Statuses and answers of a service of one model to paths with bodies, in this process."""

    async def ask() -> list[tuple[int, Any]]:
        desk = Here(str(folder), Limits())
        house = House([Place(folder.name, folder, None, desk, desk)], Limits())
        await house.open()
        transport = httpx2.ASGITransport(app=app(house))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            found = [await client.post(path, json=body) for path, body in asked]
        return [(each.status_code, each.json()) for each in found]

    return asyncio.run(ask())


@dataclass
class Service:
    process: subprocess.Popen[str]
    url: str = ""
    log: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def workers(self) -> list[int]:
        """Process numbers of those that work for it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("utf-8")
        return [int(each) for each in children.split()]


@contextlib.contextmanager
def service(*arguments: object, env: dict[str, str] | None = None) -> Iterator[Service]:
    """`regard serve` at a port of its own; what it says to standard error is kept."""
    code = "from regard.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0", "--threads", "1", *map(str, arguments)]
    own = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(env or {})}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own)
    found, up = Service(process), threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        with process.stderr as said:
            for line in said:
                found.log.append(line)
                if match := re.match(r"http://\S+:\d+", line):
                    found.url = match[0]
                    up.set()
        up.set()

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    try:
        assert up.wait(60), "it did not start"
        assert found.url, "".join(found.log)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        finally:
            process.kill()
            reader.join(5)
