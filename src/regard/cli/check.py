"""`regard check`: every problem of the data, by file and line, before hours go into them."""

from __future__ import annotations

import json
import sys

from regard.tasks.report import Report


def show(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**report.rows, "problems": report.problems}, ensure_ascii=False))
    else:
        print(report.text() or "no problems found")
        print("\n".join(f"{name:15} {value}" for name, value in report.rows.items()))
    if report.fatal:
        sys.exit(2)
