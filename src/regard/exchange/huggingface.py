"""Folders in Hugging Face's layout, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from regard.attention.encoding import Sinusoid
from regard.data.tokenizer import MASK, Tokenizers
from regard.errors import UserError
from regard.exchange.families import FAMILIES, Family, Given
from regard.exchange.layouts import in_halves
from regard.exchange.sentences import read_sentences
from regard.exchange.spm import llama_tokenizer, marian_tokenizers
from regard.exchange.weights import Stored
from regard.exchange.words import read_tokenizer
from regard.files import read_regular, write
from regard.models.build import MODELS, shapes_of
from regard.models.config import BertConfig, GptConfig, ModelConfig, Seq2seqConfig
from regard.tasks.folder import read_json

CODE = ("auto_map", "custom_pipelines")  # settings that name code to run
GENERATION = "generation_config.json"
LONGEST = 1 << 20  # tokens of a text


@dataclass(frozen=True, eq=False)
class Read:
    """A foreign model, here."""

    model: Any
    tokenizers: Tokenizers | None
    max_length: int
    never: tuple[int, ...] = ()
    """Words that must not be said, such as Marian's padding, whose logit of 0 is often the best."""


def read_folder(folder: Path) -> Read:
    """A model of a known family, with its weights and words; nothing in the folder is run."""
    path = folder / "config.json"
    values = read_json(folder)
    if named := [name for name in CODE if values.get(name)]:
        raise UserError(f"{path}: {named[0]} names code to run; Regard runs none, and reads only models that need none")
    family = FAMILIES.get(str(values.get("model_type")))
    if family is None:
        kind = values.get("model_type")
        raise UserError(
            f"{path}: is not a Regard model, and of model_type {kind!r}; Regard reads {', '.join(FAMILIES)}"
        )
    try:
        config = family.to_ours(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    tokenizers = _tokenizers(folder, config)
    if isinstance(config, BertConfig) and tokenizers is not None:  # its settings do not say which these are
        start, end, mask = (tokenizers.source.id_of(name) for name in ("[CLS]", "[SEP]", MASK))
        if start is not None and end is not None and mask is not None:
            config = replace(config, start=start, end=end, mask=mask)
    given = Given(values)
    longest = int(given.number("max_position_embeddings", given.number("n_positions", 1024)))
    if given.problems:
        raise UserError(f"{path}: {'; '.join(given.problems)}")
    if isinstance(config, BertConfig):
        config, longest = read_sentences(folder, config, longest)
    return Read(fill(folder, family, config), tokenizers, min(longest, LONGEST), _never(folder, values))


def _never(folder: Path, values: Mapping[str, Any]) -> tuple[int, ...]:
    path = folder / GENERATION
    try:
        told = [values, json.loads(read_regular(path)) if path.is_file() else {}]
        return tuple({int(i) for each in told for (i,) in each.get("bad_words_ids") or []})
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UserError(f"{folder}: bad_words_ids has to be a list of single words ({error})") from error


def _tokenizers(folder: Path, config: Any) -> Tokenizers | None:
    two = isinstance(config, Seq2seqConfig)
    if two and (folder / "source.spm").is_file():
        return marian_tokenizers(folder, config.target_vocabulary)
    controls = {} if isinstance(config, BertConfig) else {config.start: "<start>", config.end: "</s>"}
    tokenizer = read_tokenizer(folder, config.target_vocabulary if two else config.vocabulary, controls)
    if tokenizer is None and isinstance(config, GptConfig) and (folder / "tokenizer.model").is_file():
        tokenizer = llama_tokenizer(folder / "tokenizer.model", config.vocabulary)
    return None if tokenizer is None else Tokenizers(tokenizer, tokenizer)


def fill(folder: Path, family: Family, config: ModelConfig) -> nn.Module:
    """A model with the folder's weights."""
    stored = Stored(folder)
    wanted = shapes_of(config)
    rules = family.rules(config)
    if not any(name.startswith(family.prefix) for name in stored.shapes):  # the trunk alone was saved
        rules = [replace(rule, theirs=rule.theirs.removeprefix(family.prefix)) for rule in rules]
    weights = stored.take(rules, wanted, family.ignored)
    model = MODELS[type(config)](config)
    model.load_state_dict(weights, strict=False)  # tied tables are stored once
    return model


def write_folder(folder: Path, model: nn.Module, kind: str) -> None:
    """As `transformers` reads it; raises UserError with what that kind of model cannot have."""
    family = FAMILIES[kind]
    config, ours = in_halves(model.config, {name: p.detach() for name, p in model.named_parameters()})
    values = family.to_theirs(config)
    theirs = {rule.theirs: rule.to_theirs(ours) for rule in family.rules(config)}
    for name in family.sinusoids:
        theirs[name] = Sinusoid(config.width, "halves")(torch.arange(values["max_position_embeddings"])).float()
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "model.safetensors", save(theirs, {"format": "pt"}))
    write(folder / "config.json", json.dumps({"model_type": kind, **values}, indent=1).encode())


def kind_of(config: Any) -> str:
    """The family that can hold a model of ours, or why none can."""
    reasons = []
    for kind, family in FAMILIES.items():
        if family.shape is type(config):
            try:
                family.to_theirs(config)
            except UserError as error:
                reasons.append(f"{kind}: {error}")
            else:
                return kind
    told = "; ".join(reasons) or f"none is {config.kind}; use --to onnx"
    raise UserError(f"no kind of model there is like this one; {told}")
