"""How soon one sees something: pictures, the page, and a page of very many heads. Needs Debian's chromium.

    python -m bench.page MODEL [SENTENCE]

Prints seconds from a cold start to the first picture, bytes that the page transfers, milliseconds from a key to the
translation and to the attention, and how a model of 12 + 12 layers of 16 heads fares in one HTML file.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from tests.serve.sight import CHROMIUM, FLAGS
from tests.serve.toys import make_model, service

from regard import load
from regard.models.build import build
from regard.models.config import TransformerConfig

RUNS = 5
KEYS = """async (text) => {
  const box = document.querySelector("#text"), said = document.querySelector("#said");
  const began = performance.now();
  box.value = text;
  const changed = new Promise((then) => new MutationObserver((_, seen) => (seen.disconnect(), then(performance.now())))
    .observe(said, { childList: true, subtree: true, characterData: true }));
  box.dispatchEvent(new Event("input"));
  return (await changed) - began;
}"""


def cold(model: str, sentence: str, folder: Path) -> None:
    for kind in ("svg", "png", "html"):
        took = []
        for _ in range(RUNS):
            began = time.perf_counter()
            command = [sys.executable, "-c", "from regard.cli.main import main; main()", "attend", model, sentence]
            subprocess.run([*command, "-o", str(folder / f"a.{kind}")], check=True)
            took.append(time.perf_counter() - began)
        spread = f"{statistics.median(took):.2f} s, {min(took):.2f} to {max(took):.2f}"
        print(f"regard attend -o a.{kind}, from nothing: {spread}")


def served(page: Page, model: str, sentence: str) -> None:
    sizes: list[int] = []
    began = time.perf_counter()
    with service(model) as found:
        up = time.perf_counter() - began
        page.on(
            "requestfinished",
            lambda request: sizes.append(sum(request.sizes()[k] for k in ("responseBodySize", "responseHeadersSize"))),
        )
        page.goto(found.url)
        page.wait_for_function("document.querySelector('#model').options.length")
        loaded, count = sum(sizes), len(sizes)
        page.fill("#text", sentence)
        page.locator("#view svg").wait_for(timeout=60_000)
        print(
            f"regard serve: listens after {up:.2f} s, attention on the page after {time.perf_counter() - began:.2f} s"
        )
        print(f"the page: {loaded:,} bytes in {count} requests")
        words = sentence.split()
        texts = [" ".join(words[: 1 + i % len(words)]) for i in range(20)]
        times = [page.evaluate(KEYS, text) for text in texts]
        print(f"from a key to the translation: median {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")


def large(page: Page, folder: Path) -> None:
    model: Any = load(make_model(folder / "en-de"))
    size = model.tokenizers.source.vocabulary
    shape = {"width": 256, "hidden": 256, "num_heads": 16, "encoder_layers": 12, "decoder_layers": 12, "tied": "all"}
    model.model = build(TransformerConfig(source_vocabulary=size, target_vocabulary=size, **shape), 0)
    look = model.attend("the cat sees the bird and the dog " * 4, "der Hund schläft " * 7)
    tokens = tuple(len(look.axes[side].labels) for side in ("source", "target"))
    began = time.perf_counter()
    look.save(folder / "large.html")
    print(f"12 + 12 layers of 16 heads, {tokens} tokens: {(folder / 'large.html').stat().st_size / 1e6:.1f} MB of HTML "
          f"in {time.perf_counter() - began:.1f} s, left out: {look.page()['left_out']}")  # fmt: skip
    began = time.perf_counter()
    page.goto(f"file://{folder / 'large.html'}")
    page.locator("#view svg").wait_for()
    opened, began = time.perf_counter() - began, time.perf_counter()
    page.get_by_role("button", name="All heads", exact=True).click()
    page.locator("#view canvas").last.wait_for()
    count, took = page.locator("#view canvas").count(), time.perf_counter() - began
    print(f"opens in {opened:.1f} s, all {count} heads in {took:.1f} s")
    page.screenshot(path=folder / "large.png")


def main(model: str, sentence: str = "I ate an apple") -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        cold(model, sentence, Path(name))
        page = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS).new_page()
        served(page, model, sentence)
        large(page, Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
