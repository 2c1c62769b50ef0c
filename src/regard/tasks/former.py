"""Recipes of version 1: what their keys and values are called now."""

from functools import cache

from yaml import MappingNode, Node, ScalarNode

from regard.progress import say

_tell = cache(say)  # the same once
STRING = "tag:yaml.org,2002:str"
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


def translate(root: MappingNode) -> None:
    """Rename what has another name now, or drop it; the user is told once."""
    task, changes = _sections(root).get("task"), list[str]()
    translates = not isinstance(task, ScalarNode) or task.value == "translation"
    for old, new in {**KEYS, **dict(list(SILENT.items())[: 1 if translates else 2])}.items():
        (section, key), name = old.split("."), new.rpartition(".")[2]
        inner = _sections(root).get(section)
        if isinstance(inner, MappingNode) and key in (values := _sections(inner)):
            kept = [pair for pair in inner.value if pair[0].value not in (key, name)]
            mark = next(node.start_mark for node, _ in inner.value if node.value == key)
            inner.value = [*kept, *([(ScalarNode(STRING, name, mark), values[key])] if name else [])]
            changes += [f"{old} is now {new}"] if new else []
    for key, names in VALUES.items():
        node = _sections(root).get(key)
        if isinstance(node, ScalarNode) and node.value in names:
            changes += [f"{key}: {node.value} is now {names[node.value]}"] if key != "version" else []
            node.value = names[node.value]
    if changes:
        _tell(f"{root.start_mark.name} is a recipe of version 1: {', '.join(changes)}")


def _sections(node: MappingNode) -> dict[str, Node]:
    return {key.value: value for key, value in node.value if isinstance(key, ScalarNode)}
