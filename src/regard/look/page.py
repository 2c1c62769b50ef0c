"""One page that holds everything: attention of every head, the beam, what else was likely; no network is needed."""

from __future__ import annotations

import json
from importlib.resources import files
from string import Template
from typing import Any

from regard.look.labels import markup

REMARK = "Attention shows where a model looked, which is no explanation of why it said what it said."


def page(title: str, data: dict[str, Any]) -> str:
    """A self-contained document; `data` is what web/view.js draws."""
    web = files("regard.look") / "web"
    document, style, script = ((web / name).read_text("utf-8") for name in ("page.html", "view.css", "view.js"))
    numbers = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # so that no text can end the script
    parts = {"title": markup(title), "style": style, "remark": REMARK, "script": script, "data": numbers}
    return Template(document).substitute(parts)
