"""`regard init`: a commented recipe to start from."""

from __future__ import annotations

from regard.errors import UserError
from regard.tasks.registry import FORMER, TASKS


def starter(task: str) -> str:
    """The recipe of a task, as YAML."""
    spec = TASKS.get(FORMER.get(task, task))
    if spec is None:
        raise UserError(f"no task is called {task!r}; choose {', '.join(TASKS)}")
    return spec.starter()
