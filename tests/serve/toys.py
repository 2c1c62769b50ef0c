"""Little models, and a service of them in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.config import TokenizerConfig
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Sample
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentConfig, TransformerConfig
from regard.tasks.folder import save_model, save_tokenizers

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
