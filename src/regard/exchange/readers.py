"""Readers with BERT below, as `transformers` reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from regard.errors import UserError
from regard.exchange.families import FAMILIES
from regard.exchange.installed import installed
from regard.files import write
from regard.models.config import OF_TOKENS, BertConfig, ReaderConfig
from regard.shapes import Padded
from regard.tasks.folder import Loaded

HEADS = {  # the class of each question, and the name of its head
    "classification": ("SequenceClassification", "classifier"),
    "regression": ("SequenceClassification", "classifier"),
    "choice": ("MultipleChoice", "classifier"),
    "tagging": ("TokenClassification", "classifier"),
    "spans": ("QuestionAnswering", "qa_outputs"),
}
SAME = 1e-4  # difference that rounding explains


def write_reader(loaded: Loaded, folder: Path, rows: list[list[int]]) -> str:
    """The folder, and how far its answers are from ours."""
    config = loaded.config
    assert isinstance(config, ReaderConfig)
    if reason := _unfit(config):
        raise UserError(f"no kind of model there is like this one: {reason}")
    kind, head = HEADS[config.question]
    family, ours = FAMILIES["bert"], {name: p.detach() for name, p in loaded.model.named_parameters()}
    values = {**family.to_theirs(config.trunk), "architectures": [f"BertFor{kind}"]}  # raises for other shapes
    trunk = {name.removeprefix("trunk."): p for name, p in ours.items() if name.startswith("trunk.")}
    theirs = {rule.theirs: rule.to_theirs(trunk) for rule in family.rules(config.trunk)}
    bias = ours["head.bias"] * config.spread + config.center
    theirs |= {f"{head}.weight": ours["head.weight"] * config.spread, f"{head}.bias": bias}
    if config.question in ("classification", "tagging"):
        values["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
        values["label2id"] = {label: i for i, label in enumerate(config.labels)}
    if config.question == "regression":
        values |= {"problem_type": "regression", "id2label": {"0": "score"}, "label2id": {"score": 0}}
    write(folder / "model.safetensors", save({k: x.contiguous() for k, x in theirs.items()}, {"format": "pt"}))
    write(folder / "config.json", json.dumps({"model_type": "bert", **values}, indent=1).encode())
    return f"BertFor{kind}, {compare_numbers(_answers(loaded, folder, rows, kind), 'answers to')}"


def _unfit(config: ReaderConfig) -> str:
    if not isinstance(config.trunk, BertConfig):
        return f"{config.trunk.kind} reads here, and there are readers with BERT alone"
    if config.pooling != "first" and config.question not in OF_TOKENS:
        return f"model.pooling is {config.pooling}, and theirs is first"
    return "pairs are read in both orders" if config.symmetric else ""


def _answers(loaded: Loaded, folder: Path, rows: list[list[int]], kind: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Ours to each text, and theirs."""
    config = loaded.model.config
    theirs = getattr(installed("transformers"), f"AutoModelFor{kind}").from_pretrained(folder).eval()
    for row in rows:
        segments = (torch.arange(len(row)) > len(row) // 2).long()[None]
        ours = loaded.model(Padded.of([row]), segments) * config.spread + config.center
        batch = {"input_ids": torch.tensor([row]), "token_type_ids": segments}
        output = theirs(**{name: x[None] if kind == "MultipleChoice" else x for name, x in batch.items()})
        spans = kind == "QuestionAnswering"
        yield ours, torch.stack((output.start_logits, output.end_logits), -1) if spans else output.logits


@torch.no_grad()
def compare_numbers(pairs: Iterable[tuple[Tensor, Tensor]], what: str) -> str:
    """How far our numbers are from those of `transformers`, text by text; raises UserError where it is too far."""
    differences = [float((ours - theirs).abs().max()) for ours, theirs in pairs]
    largest, where = max(differences), f"transformers {installed('transformers').__version__}"
    if largest > SAME:
        raise UserError(f"the numbers of {where} differ by {largest:.1e}; not exported")
    return f"checked: {what} {len(differences)} texts differ by {largest:.1e} at most here and in {where}"
