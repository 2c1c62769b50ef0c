"""Every task, by its name."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Union, cast

from yaml import MappingNode, Node, ScalarNode

from regard import recipe as recipes
from regard.errors import UserError
from regard.progress import say
from regard.tasks.bilm.config import BILM
from regard.tasks.config import BaseRecipe
from regard.tasks.labelled.config import LABELLED
from regard.tasks.lm.config import LM
from regard.tasks.mlm.config import MLM
from regard.tasks.spec import TaskSpec
from regard.tasks.translation.config import TRANSLATION

# Of recipes of version 1: what their keys and values are called now.
_tell = cache(say)  # the same once
KEYS = {  # by section and key
    "train.passes": "train.epochs",
    "train.auxiliary": "train.lm_loss_weight",
    "train.sampled": "train.sampled_softmax",
    "train.lora": "train.lora_rank",
    "train.frozen": "train.frozen_layers",
    "data.apart": "data.separate_documents",
    "data.words": "data.tokenizer_from",
    "data.masked": "data.mask_rate",
    "data.whole_words": "data.whole_word_masking",
    "model.base": "model.init_from",
    "model.fresh": "model.architecture_only",
}
SILENT = {"search.num_best": "", "search.max_ratio": ""}  # what no recipe says any more, the second but of translators
VALUES = {"task": {"language": "lm", "masked": "mlm", "bidirectional": "bilm"}, "version": {"1": "2"}}
FORMER = VALUES["task"]  # names of tasks
GONE = {"base": "10000.0", "output_bias": "false", "embedding_norm": "false"}  # of models, with what they all had


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


def translate(root: MappingNode) -> None:
    """Rename what had another name in version 1, or drop it; the user is told once."""
    task, changes = _sections(root).get("task"), list[str]()
    translates = not isinstance(task, ScalarNode) or task.value == "translation"
    for old, new in {**KEYS, **dict(list(SILENT.items())[: 1 if translates else 2])}.items():
        (section, key), name = old.split("."), new.rpartition(".")[2]
        inner = _sections(root).get(section)
        if isinstance(inner, MappingNode) and key in (values := _sections(inner)):
            kept = [pair for pair in inner.value if pair[0].value not in (key, name)]
            mark = next(node.start_mark for node, _ in inner.value if node.value == key)
            inner.value = [*kept, *([(ScalarNode(recipes.STRING, name, mark), values[key])] if name else [])]
            changes += [f"{old} is now {new}"] if new else []
    for key, names in VALUES.items():
        node = _sections(root).get(key)
        if isinstance(node, ScalarNode) and node.value in names:
            changes += [f"{key}: {node.value} is now {names[node.value]}"] if key != "version" else []
            node.value = names[node.value]
    _drop(_sections(root).get("model"))
    if changes:
        _tell(f"{root.start_mark.name} is a recipe of version 1: {', '.join(changes)}")


def _drop(node: Node | None) -> None:
    """Settings that no recipe has any more, where they are as all models have them."""
    if not isinstance(node, MappingNode):
        return
    own = _sections(node)
    gone = GONE | ({"embedding_norm": "true"} if "segments" in own else {})  # of BERT
    kept = {name: value for name, value in own.items() if getattr(value, "value", None) != gone.get(name, value)}
    node.value = [pair for pair in node.value if getattr(pair[0], "value", None) in kept]
    for value in kept.values():
        _drop(value)


def _sections(node: MappingNode) -> dict[str, Node]:
    return {key.value: value for key, value in node.value if isinstance(key, ScalarNode)}


TASKS: dict[str, TaskSpec] = {spec.name: spec for spec in (TRANSLATION, LM, MLM, BILM, *LABELLED)}
