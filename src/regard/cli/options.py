"""Commands whose options are those of the model that they are given, as its task declares them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError
from regard.exchange.folders import task_of
from regard.tasks.registry import TASKS
from regard.tasks.spec import TaskSpec

OWN = "own"  # the parameter of a command that gets the options of the model


def named_model(arguments: Sequence[str]) -> TaskSpec | None:
    """The task of the first model that a command line names."""
    names = (task_of(Path(word)) for word in arguments if not word.startswith("-"))
    return next((TASKS[name] for name in names if name in TASKS), None)


def with_options(command: Callable[..., None], own: str, spec: TaskSpec | None, verb: str) -> Callable[..., None]:
    """A command with the options that a task declares as its `own`; without a model, those of all models alone."""
    schema = [] if spec is None else fields(getattr(spec, own))
    set_by_name: Mapping[str, Any] = {} if spec is None else spec.verbs.get(verb, {})

    def call(**given: Any) -> None:
        if spec is not None and verb not in (own, *spec.verbs):
            those = " and ".join(each.plural for each in TASKS.values() if verb in each.verbs)
            raise UserError(f"{verb} is for {those}, and this is a model for {spec.purpose}; use regard run")
        options = {each.name: given.pop(each.name) for each in schema}
        several = {each.name: tuple(options[each.name] or ()) for each in schema if isinstance(each.default, tuple)}
        command(**given, own={**options, **several, **set_by_name})

    common = [each for name, each in inspect.signature(command, eval_str=True).parameters.items() if name != OWN]
    parameters = [*common, *map(_parameter, schema)]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameter(each: Field[Any]) -> inspect.Parameter:
    """The option of a field, which has its help with it."""
    name = each.metadata["name"] or each.name.replace("_", "-")
    many, kind = isinstance(each.default, tuple), each.metadata["kind"] or type(each.default)
    hint = list[str] | None if many else kind if each.default is not None else kind | None
    names = [f"--{name}", *(["-o"] if name == "output" else [])]
    annotation = Annotated[hint, typer.Option(*names, help=each.metadata["help"])]  # type: ignore[valid-type]
    default = None if many else each.default
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
