"""`regard init`: a commented recipe to start from."""

from __future__ import annotations

from importlib.resources import files

from regard.errors import UserError
from regard.tasks.folder import TASKS


def starter(task: str) -> str:
    """The recipe of cli/starters/, as YAML."""
    if task not in TASKS:
        raise UserError(f"no task is called {task!r}; choose {', '.join(TASKS)}")
    return files("regard.cli").joinpath(f"starters/{task}.yaml").read_text("utf-8")
