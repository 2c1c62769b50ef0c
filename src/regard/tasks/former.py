"""Recipes of version 1: what their keys and values are called now."""

from __future__ import annotations

from functools import cache

from yaml import MappingNode, ScalarNode

from regard.progress import say

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
DROPPED = ("search.num_best", "search.max_ratio")  # what no recipe says any more, the second but for translators
VALUES = {"task": {"language": "lm", "masked": "mlm", "bidirectional": "bilm"}, "version": {"1": "2"}}


def translate(root: MappingNode) -> None:
    """Rename what has another name now; the user is told once."""
    task = dict(_pairs(root)).get("task")
    translates = not isinstance(task, ScalarNode) or task.value == "translation"
    for key in DROPPED[: 1 if translates else 2]:
        _drop(root, key)
    changes = [f"{old} is now {new}" for old, new in KEYS.items() if _rename(root, old, new)]
    for key, names in VALUES.items():
        node = dict(_pairs(root)).get(key)
        if isinstance(node, ScalarNode) and node.value in names:
            changes += [f"{key}: {node.value} is now {names[node.value]}"] if key != "version" else []
            node.value = names[node.value]
    if changes:
        _tell(f"{root.start_mark.name} is a recipe of version 1: {', '.join(changes)}")


def _rename(root: MappingNode, old: str, new: str) -> bool:
    section, _, key = old.rpartition(".")
    inner = dict(_pairs(root)).get(section)
    if not isinstance(inner, MappingNode) or key not in dict(_pairs(inner)):
        return False
    name = new.rpartition(".")[2]
    inner.value = [pair for pair in inner.value if pair[0].value != name]
    for node, _ in inner.value:
        if isinstance(node, ScalarNode) and node.value == key:
            node.value = name
    return True


def _drop(root: MappingNode, name: str) -> None:
    section, _, key = name.rpartition(".")
    inner = dict(_pairs(root)).get(section)
    if isinstance(inner, MappingNode):
        inner.value = [pair for pair in inner.value if pair[0].value != key]


def _pairs(node: MappingNode) -> list[tuple[str, object]]:
    return [(key.value, value) for key, value in node.value if isinstance(key, ScalarNode)]


@cache
def _tell(message: str) -> None:
    say(message)
