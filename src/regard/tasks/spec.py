"""TaskSpec: all that the rest of Regard knows of a task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.decode.config import Search
from regard.tasks.config import BaseRecipe
from regard.tasks.options import Options
from regard.tasks.report import Report

if TYPE_CHECKING:
    from torch import nn

    from regard.tasks.folder import Loaded
    from regard.tasks.judging import Judge
    from regard.tasks.runnable import Runnable
    from regard.tasks.task import AnyTask


def lazy(name: str) -> Callable[..., Any]:
    """The function `regard.module:function`, imported when it is called: a recipe or a help text needs no torch."""
    module, _, function = name.partition(":")
    return lambda *given, **options: getattr(import_module(module), function)(*given, **options)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One of these is in each task's folder."""

    name: str
    purpose: str
    """What a model of it is for, in a model card."""
    plural: str
    """What its models are called, in messages."""
    recipe: type[BaseRecipe]
    models: Any
    """Types of the model's settings."""
    search: Search
    """How outputs are searched for where no recipe says so."""
    form: Literal["source", "prompt", "text", "example"] = "text"
    """What it gets: a source to turn into a target, a prompt to go on with, a whole text, or an example to answer."""
    files: Callable[[Any], list[Path]]
    """The data files that a recipe names."""
    inspect: Callable[[Sequence[Any], Sequence[Any]], Report] = lambda train, valid: Report()
    """Problems of the data to train and to validate on; by default, reading them says all that can be wrong."""
    prepare: "Callable[[Any, Path, Loaded | None], AnyTask]"
    """From a recipe, the folder of the run and the model that it begins with to what is trained."""
    model: "Callable[[Any, Any, Path, Loaded | None], nn.Module]"
    """From the same and the task to the model, with initial weights or those that it begins with."""
    runtime: "Callable[..., Runnable]"
    """From a loaded model to one that is ready to use."""

    run: type[Options] = Options
    """What a model can be asked by `run` and when it is called."""
    evaluate: type[Options] = Options
    """What it can be evaluated on, and how."""
    verbs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Names of `run` for models of this task, and of methods of their runtime; and the options that each sets."""
    judge: "Callable[..., Judge] | None" = None
    """How `regard compare` judges models of some recipes, if it can."""
