"""A browser that minds what goes wrong, and a model that has words to look at."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import torch

import regard
from regard.decode.config import Beam
from regard.shapes import Padded
from regard.tasks.folder import save_model
from tests.serve.toys import make_model

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip("there is no /usr/bin/chromium to show pages", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
Axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe looks for barriers").Axe
expect = playwright.expect

QUIET = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-component-update"
FLAGS = [f"--{name}" for name in (*QUIET.split(), "disable-sync")]
WATCH = "addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"
SLOWLY = """{ const real = fetch; window.fetch = (path, how) => {
  if (path !== "/v1/completions") return real(path, how);
  const start = (way) => {
    const event = new TextEncoder().encode('data: {"choices": [{"text": " and"}]}\\n\\n');
    const beat = setInterval(() => way.enqueue(event), 20);
    how.signal.onabort = () => { clearInterval(beat); way.error(how.signal.reason); };
  };
  return Promise.resolve(new Response(new ReadableStream({ start })));
} }"""
VIEWS = ("Heat map", "Lines", "All heads", "Beam", "Next words")
# The dogs, and what they are called in German, are of several pieces.
PAIRS = {
    "a cat sees the dogs": "eine Katze sieht die Hunde",
    "the dog sleeps": "der Hund schläft",
    "a bird": "ein Vogel",
}
CAT, DOG, BIRD = PAIRS


@dataclass
class Seen:
    """What a page asked for, and what was wrong with it."""

    home: str
    paths: list[str] = field(default_factory=list)
    posts: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    fails: bool = False
    """Whether answers of the service fail on purpose, which browsers note as errors."""

    def request(self, one: Any) -> None:
        self.paths.append(urlsplit(one.url).path)
        if not one.url.startswith((self.home, "blob:")):
            self.faults.append(f"asked for {one.url}")
        if one.method == "POST":
            self.posts.append((self.paths[-1], one.post_data_json))

    def console(self, one: Any) -> None:
        if one.type == "error" and not (self.fails and one.text.startswith("Failed to load resource")):
            self.faults.append(one.text)


@dataclass
class Place:
    url: str
    folder: Path

    def model(self, name: str = "en-de") -> Any:
        return regard.load(self.folder / name)

    def ask(self, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        with urlopen(Request(self.url + path, data, {"Content-Type": "application/json"}), timeout=60) as found:
            return json.load(found)


def taught(folder: Path) -> Path:
    """A translator that knows the pairs by heart."""
    torch.set_num_threads(1)  # more would wait for one another where others work too
    torch.manual_seed(0)
    model = regard.load(make_model(folder))
    source = Padded.of(model.tokenizers.read(list(PAIRS)))
    said = Padded.of([[model.start, *row] for row in model.spelled(list(PAIRS.values()))]).tokens
    optimizer = torch.optim.Adam(model.model.parameters(), lr=5e-3)
    for _ in range(60):
        logits = model.model(source, said[:, :-1])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), said[:, 1:].flatten(), ignore_index=0).backward()
        optimizer.step()
    save_model(folder, model.model, "translation", Beam(size=3, max_length=20), 40, {})
    return folder


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser: Any, home: str, **how: Any) -> Iterator[Any]:
    """A page of its own, that has to end without barriers, errors or requests to others; `page.seen` tells more."""
    with browser.new_context(**how) as context:
        context.set_default_timeout(10_000)
        context.add_init_script(WATCH)
        page, seen = context.new_page(), Seen(home)
        page.seen = seen
        page.on("request", seen.request)
        page.on("console", seen.console)
        page.on("pageerror", lambda error: seen.faults.append(str(error)))
        yield page
        sound(page)
        assert not seen.faults


def sound(page: Any) -> None:
    """Nothing keeps anybody out, as far as axe can tell; it fetches nothing for that."""
    axe = Axe()
    if page.evaluate("'axe' in window"):
        axe.axe_script = "0"
    found = axe.run(page, options={"resultTypes": ["violations"], "preload": False})
    bad = [each for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
    assert not bad, found.generate_report()


def view(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def told(page: Any) -> str:
    found: str = page.locator("#view .told").text_content()
    return found


def cell(page: Any, row: int, column: int) -> Any:
    return page.locator(f"rect[data-row='{row}'][data-column='{column}']")


def shows(page: Any, weights: Any) -> bool:
    """Whether the heat map has these weights, black for 0 to white for 1, in 256 shades."""
    fills = "all => all.map((each) => [each.dataset.row, each.dataset.column, each.getAttribute('fill')])"
    drawn = torch.zeros(torch.as_tensor(weights).shape)
    found = page.eval_on_selector_all("rect[data-row]", fills)
    for row, column, fill in found:
        drawn[int(row), int(column)] = int(re.findall(r"\d+", fill)[0]) / 255
    return len(found) == drawn.numel() and torch.allclose(drawn, torch.as_tensor(weights), rtol=0, atol=0.6 / 255)


def type_in(page: Any, text: str = CAT, *, looked: bool = True) -> None:
    """And wait for what comes of it."""
    if page.url == "about:blank":
        page.goto("/")
    with page.expect_response("**/api/attention" if looked else "**/api/translate"):
        page.locator("#text").fill(text)
    expect(page.locator("#said")).not_to_have_class("stale")
    if looked:
        expect(page.locator("#read span")).to_have_text([*text.split(), "</s>"])


def fulfil(page: Any, path: str, body: Any, status: int = 200, times: int | None = None) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    answer = {"status": status, "content_type": "application/json", "body": text}
    page.route(f"**{path}", lambda route: route.fulfill(**answer), times=times)


def give(page: Any, lines: list[str]) -> None:
    given = {"name": "some.text.txt", "mimeType": "text/plain", "buffer": "\r\n".join(lines).encode()}
    page.locator("#pick").set_input_files(given)


def taken(page: Any) -> list[str]:
    with page.expect_download() as found:
        page.locator("#download").click()
    return Path(found.value.path()).read_text("utf-8").split("\n")
