"""The largest requests that the service takes, and the commands beside them: peak memory and seconds of each.

    python -m bench.largest [demo|base ...] [--engine auto] [--only TEXT]      (TEXT: a part of a name below)

Models of random weights, in the demo's shape and in that of the paper's base model with 8,000 words; what they say
never ends by itself, so every output is as long as it may be. Seconds by the clock, and of the processor; MB beyond the
idle service (or of the whole command). A request past its bound is there too: its figures are what a refusal costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.serving import REGARD, Client, Service, serving

from regard.data.config import TokenizerConfig
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Sample
from regard.models.build import build
from regard.models.config import GptConfig, TransformerConfig
from regard.models.presets import transformer_base
from regard.rng import Key
from regard.serve.config import Limits
from regard.tasks.folder import save_model, save_tokenizers

DEMO: dict[str, Any] = {"width": 128, "hidden": 256, "num_heads": 4, "placement": "pre"}
LIMITS = Limits()


def make_models(folder: Path, shape: str) -> tuple[Path, Path]:
    """A translator and a language model."""
    words = _words()
    both = {"source_vocabulary": words.vocabulary, "target_vocabulary": words.vocabulary, "tied": "all"}
    translators = {
        "demo": TransformerConfig(**both, **DEMO, encoder_layers=2, decoder_layers=2),
        "base": replace(transformer_base(), **both),
    }
    tellers = {
        "demo": GptConfig(vocabulary=words.vocabulary, num_layers=4, **DEMO),
        "base": GptConfig(vocabulary=words.vocabulary, num_layers=6, width=512, hidden=2048, num_heads=8),
    }
    beam = {"demo": Beam(size=2, max_length=60), "base": Beam(max_length=60)}[shape]
    for name, config in (("translator", translators[shape]), ("teller", tellers[shape])):
        (folder / name).mkdir()
        save_tokenizers(folder / name, Tokenizers(words, words))
        task, search = ("translation", beam) if name == "translator" else ("lm", Sample())
        save_model(folder / name, build(config, 3), task, search, 256, {})
    return folder / "translator", folder / "teller"


def _words() -> Tokenizer:
    draw = Key(0, ("largest",)).generator()
    letters = list("abcdefghijklmnopqrstuvwxyz")
    words = ["".join(draw.choice(letters, int(draw.integers(2, 9)))) for _ in range(12_000)]
    lines = (" ".join(words[i : i + 12]) for i in range(0, len(words), 12))
    return Tokenizer.train(lines, TokenizerConfig(kind="bpe", vocabulary=8_000))


def texts(count: int, size: int, character: str = "") -> list[str]:
    draw = Key(0, ("texts",)).generator()
    letters = list("abcdefghijklmnopqrstuvwxyz" + " " * 6)
    return [character * size or "".join(draw.choice(letters, size)).strip() or "a" for _ in range(count)]


def requests() -> dict[str, tuple[str, dict[str, Any]]]:
    """By name the route and the body; those of many characters at once, in Latin letters or such as no word has."""
    most, all_characters = LIMITS.characters, LIMITS.all_characters
    many = texts(LIMITS.texts, all_characters // LIMITS.texts)
    long, cjk = texts(8, most)[: all_characters // most], texts(1, most, "世")[0]
    short, lines = "the dog sees a cat", "\n".join(texts(900, 30))
    languages = {"source": "en", "target": "de"}
    going_on = {"model": "teller", "temperature": 1, "seed": 1}
    tokens = min(LIMITS.tokens, LIMITS.all_tokens)
    choices = min(LIMITS.best, LIMITS.all_tokens // tokens)
    return {
        "translate: a sentence": ("/translate", {"q": short, **languages}),
        "translate: a long text": ("/translate", {"q": texts(1, most)[0], **languages}),
        "translate: a long text, CJK": ("/translate", {"q": cjk, **languages}),
        "translate: 64 texts": ("/translate", {"q": many, **languages}),
        "translate: 8 long texts": ("/translate", {"q": long, **languages}),
        "translate: 900 lines": ("/translate", {"q": texts(1, 5)[0] + "\na" * 900, **languages}),
        "translate: 8 alternatives": ("/translate", {"q": texts(1, most)[0], **languages, "alternatives": 7}),
        "own: 8 best, beam 16, a sentence": ("/api/translate", {"text": short, "best": 8, "beam": 16}),
        "own: 8 best, beam 16, 5,000": ("/api/translate", {"text": texts(1, most)[0], "best": 8, "beam": 16}),
        "own: 8 best, beam 16, 40,000": ("/api/translate", {"text": many, "best": 8, "beam": 16}),
        "own: 900 lines, beam 16": ("/api/translate", {"text": lines[:most], "beam": 16}),
        "alignment: a sentence": ("/api/translate", {"text": short, "alignment": True}),
        "alignment: a long text": ("/api/translate", {"text": texts(1, most)[0], "alignment": True}),
        "alignment: a long text, CJK": ("/api/translate", {"text": cjk, "alignment": True}),
        "alignment: 64 texts, 8 best": ("/api/translate", {"text": many, "best": 8, "alignment": True}),
        "alignment: 64 short texts, 8 best": ("/api/translate", {"text": texts(64, 40), "best": 8, "alignment": True}),
        "attention: a sentence": ("/api/attention", {"text": short}),
        "attention: 250 tokens": ("/api/attention", {"text": texts(1, 400)[0]}),
        "attention: 5,000": ("/api/attention", {"text": texts(1, most)[0]}),
        "attention: 128 tokens of output": ("/api/attention", {"text": texts(1, 400)[0], "output": "世" * 42}),
        "attention: output of 800": ("/api/attention", {"text": texts(1, 400)[0], "output": texts(1, 800)[0]}),
        "attention: output of 5,000": ("/api/attention", {"text": short, "output": texts(1, most)[0]}),
        "attention: output of 4,000, CJK": ("/api/attention", {"text": short, "output": "世" * 4_000}),
        "attention: prompt of 5,000": ("/api/attention", {"model": "teller", "text": texts(1, most)[0]}),
        "attention: prompt, output of 5,000": (
            "/api/attention",
            {"model": "teller", "text": texts(1, most)[0], "output": "世" * 4_000},
        ),
        "completions: one long": ("/v1/completions", {**going_on, "max_tokens": tokens, "prompt": texts(1, most)[0]}),
        "completions: most": (
            "/v1/completions",
            {**going_on, "max_tokens": tokens, "n": choices, "best_of": choices, "echo": True, "prompt": short},
        ),
        "completions: most, logprobs": (
            "/v1/completions",
            {**going_on, "max_tokens": tokens, "n": choices, "logprobs": 5, "prompt": texts(1, most)[0]},
        ),
        "completions: 64 prompts": (
            "/v1/completions",
            {**going_on, "max_tokens": LIMITS.all_tokens // 64, "prompt": many},
        ),
        "completions: 64 prompts, n 8, logprobs": (
            "/v1/completions",
            {**going_on, "max_tokens": max(1, LIMITS.all_tokens // 512), "prompt": many, "n": 8, "logprobs": 5},
        ),
        "detect: 40,000 characters": ("/detect", {"q": many}),
    }  # fmt: skip


def commands(translator: Path, teller: Path) -> dict[str, tuple[list[object], str]]:
    long = texts(1, 5_000)[0] + "\n" + "世" * 5_000 + "\n"
    lines = "".join(f"{text}\n" for text in texts(16, 200))
    return {
        "run: two lines of 5,000": (["run", translator], long),
        "run --nbest 8 --beam 16": (["run", translator, "--nbest", 8, "--beam", 16, "--json"], long),
        "run --alignment": (["run", translator, "--alignment"], long),
        "run: language model": (["run", teller], "the dog\n"),
        "attend": (["attend", translator, texts(1, 400)[0]], ""),
        "attend --target 4,000 CJK": (["attend", translator, "the dog", "--target", "世" * 4_000], ""),
        "attend --heads, 16 lines": (["attend", translator, "--heads", "LINES"], lines),
        "attend --worst, 16 lines": (["attend", translator, "--worst", "LINES"], lines),
    }


def _peak(service: Service) -> float:
    """MB, the most that its processes held since `_forget`, together."""
    total = 0
    for pid in service.tree():
        status = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
        total += next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return total / 1e3


def _forget(service: Service) -> None:
    for pid in service.tree():
        Path(f"/proc/{pid}/clear_refs").write_text("5")


async def ask_all(translator: Path, teller: Path, engine: str, only: str) -> None:
    async with serving(
        *REGARD, "serve", f"en-de={translator}", str(teller), "--port", "0", "--engine", engine
    ) as service:
        warm = Client(service.port)
        for name in ("translator", "teller"):
            await warm.ask(json.dumps({"text": "a", "model": name}).encode(), "/api/attention")
        for name, (path, body) in requests().items():
            if only not in name:
                continue
            _forget(service)
            idle, worked, began, client = service.memory(), service.worked(), time.perf_counter(), Client(service.port)
            status, answer, _ = await client.ask(json.dumps(body).encode(), path)
            took, why, worked = time.perf_counter() - began, "", service.worked() - worked
            client.close()
            if status != 200:
                why = f"  {json.loads(answer)['error']}"[:150]
            figures = f"{took:7.2f} s {worked:7.2f} s of processor {_peak(service) - idle:8.0f} MB"
            print(f"{name:40} {status} {figures}{why}", flush=True)
            while not json.loads((await Client(service.port).ask(b"", "/ready", "GET"))[1])["ready"]:
                await asyncio.sleep(0.5)


def run_all(translator: Path, teller: Path, engine: str, only: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        for name, (command, given) in commands(translator, teller).items():
            if only not in name:
                continue
            lines = Path(place) / "lines"
            lines.write_text(given, "utf-8")
            arguments = [str(lines) if each == "LINES" else str(each) for each in command]
            arguments += ["--engine", engine] if command[0] == "run" else []
            began = time.perf_counter()
            with lines.open("rb") as file:
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                process = subprocess.Popen([sys.executable, *REGARD, *arguments], stdin=file, **quiet)
                _, status, used = os.wait4(process.pid, 0)
            took, worked = time.perf_counter() - began, used.ru_utime + used.ru_stime
            figures = f"{took:7.2f} s {worked:7.2f} s of processor {used.ru_maxrss / 1e3:8.0f} MB"
            print(f"{name:40} exit {os.waitstatus_to_exitcode(status)} {figures}", flush=True)


def main(shapes: list[str], engine: str, only: str) -> None:
    for shape in shapes:
        with tempfile.TemporaryDirectory() as place:
            models = make_models(Path(place), shape)
            print(f"-- {shape}", flush=True)
            asyncio.run(ask_all(*models, engine, only))
            run_all(*models, engine, only)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=["demo", "base"])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--only", default="")
    main(**vars(parser.parse_args()))
