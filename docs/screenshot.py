"""docs/page.png: the page of the demo's model, in a real browser. `make docs` calls it where there are both.

python docs/screenshot.py [MODEL]       (runs/demo unless told; needs playwright and Debian's chromium)
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CHROMIUM = "/usr/bin/chromium"
MODEL = sys.argv[1] if len(sys.argv) > 1 else "runs/demo"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]

if not Path(CHROMIUM).exists() or not Path(MODEL).exists():
    print(f"docs/page.png stays as it is: it needs {CHROMIUM} and {MODEL}")
    sys.exit()
from playwright.sync_api import sync_playwright  # noqa: E402

code = "from regard.cli.main import main; main()"
command = [sys.executable, "-c", code, "serve", MODEL, "--port", "0"]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service, sync_playwright() as playwright:
    assert service.stderr is not None
    url = next(line.strip() for line in service.stderr if re.match("http://", line))
    page = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS).new_page(
        viewport={"width": 1000, "height": 790}
    )
    page.goto(url)
    page.fill("#text", "The boy cannot find his key")
    page.locator("#said .word").last.hover(timeout=20_000)
    page.locator("#view svg").wait_for()
    page.locator("#said .word").last.hover()
    page.screenshot(path=Path(__file__).with_name("page.png"))
    service.terminate()
