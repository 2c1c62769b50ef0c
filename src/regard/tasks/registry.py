"""Every task, by its name."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Union, cast

from regard import recipe as recipes
from regard.errors import UserError
from regard.tasks import bilm, choice, classification, lm, mlm, regression, spans, tagging, translation
from regard.tasks.config import BaseRecipe
from regard.tasks.former import VALUES, translate
from regard.tasks.spec import TaskSpec

FORMER = VALUES["task"]  # names of tasks


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> BaseRecipe:
    """Of the task that the file names, translation if it names none."""
    return cast(BaseRecipe, recipes.read(_every(), path, overrides, translate))


def parse_recipe(text: str, name: str, overrides: Sequence[str] = ()) -> BaseRecipe:
    """The same, from a text that is called `name`."""
    return cast(BaseRecipe, recipes.parse(_every(), text, name, overrides, translate))


def _every() -> Any:
    return Union[tuple(spec.recipe for spec in TASKS.values())]  # noqa: UP007


def spec_of(config: Any) -> TaskSpec:
    """The first task whose models have such settings."""
    return next(spec for spec in TASKS.values() if isinstance(config, spec.models))


def starter(task: str) -> str:
    """A commented recipe of a task to start from."""
    spec = TASKS.get(FORMER.get(task, task))
    if spec is None:
        raise UserError(f"no task is called {task!r}; choose {', '.join(TASKS)}")
    return files(f"regard.tasks.{spec.name}").joinpath("starter.yaml").read_text("utf-8")


_modules = (translation, lm, mlm, bilm, classification, regression, choice, tagging, spans)
TASKS: dict[str, TaskSpec] = {module.SPEC.name: module.SPEC for module in _modules}
