"""One page that holds everything: attention of every head, the beam, what else was likely; no network is needed."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from regard.look.labels import markup

REMARK = "Attention shows where a model looked, which is no explanation of why it said what it said."


def page(title: str, data: dict[str, Any]) -> str:
    """A self-contained document; `data` is what web/view.js draws."""
    web = files("regard.look") / "web"
    style, script = ((web / name).read_text("utf-8") for name in ("view.css", "view.js"))
    told = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # so that no text can end the script
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{markup(title)}</title>
<style>body {{ margin: 1.5rem; }}
{style}</style>
</head>
<body class="regard">
<h1>{markup(title)}</h1>
<main id="view"></main>
<p class="remark">{REMARK}</p>
<script type="module">
{script}
show(document.getElementById("view"), {told});
</script>
</body>
</html>
"""
