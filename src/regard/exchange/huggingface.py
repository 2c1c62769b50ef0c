"""Folders in Hugging Face's layout, read and written."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from regard.attention.encoding import Sinusoid
from regard.data.tokenizer import MASK, Tokenizers
from regard.errors import UserError
from regard.exchange.families import FAMILIES, NO_MARK, Given
from regard.exchange.installed import installed
from regard.exchange.weights import LEAD, read_weights, weights_of
from regard.exchange.words import llama_tokenizer, marian_tokenizers, read_tokenizer
from regard.files import read_regular, write
from regard.models.build import MODELS, shapes_of
from regard.models.config import BertConfig, TransformerConfig
from regard.progress import warn
from regard.shapes import Padded
from regard.tasks.folder import Loaded, loaded_of, read_json
from regard.tasks.registry import spec_of

CODE = ("auto_map", "custom_pipelines")  # settings that name code to run
GENERATION = "generation_config.json"
LONGEST = 1 << 20  # tokens of a text
POOLING: dict[str, Any] = {"mean_tokens": "mean", "mean": "mean", "cls_token": "first", "cls": "first"}
MODULES = ["Transformer", "Pooling", "Normalize"]  # ours are always of length 1, so the last may be missing
NUMBER = {"problem_type": "regression", "id2label": {"0": "score"}, "label2id": {"score": 0}}
HEADS: dict[str, tuple[str, str, dict[str, Any]]] = {  # the class of each task, the name of its head, and settings
    "classification": ("SequenceClassification", "classifier", {}),
    "regression": ("SequenceClassification", "classifier", NUMBER),
    "choice": ("MultipleChoice", "classifier", {}),
    "tagging": ("TokenClassification", "classifier", {}),
    "spans": ("QuestionAnswering", "qa_outputs", {}),
}
SAME = 1e-4  # difference that rounding explains
WIDTHS = {  # where the width of the model stands in a weight
    r".*(table|to_[qkv]\.weight|(up|gate)\.weight)": 1,
    r".*(to_out\.weight|to_out\.bias|norm\.weight|norm\.bias|down\.weight|down\.bias)": 0,
}


def read_folder(folder: Path) -> Loaded:
    """A model of a known family, with its weights and words; nothing in the folder is run."""
    path = folder / "config.json"
    values = read_json(folder)
    if named := [name for name in CODE if values.get(name)]:
        raise UserError(f"{path}: {named[0]} names code to run; Regard runs none, and reads only models that need none")
    family = FAMILIES.get(str(values.get("model_type")))
    if family is None:
        kind = values.get("model_type")
        raise UserError(f"{path}: is no Regard model, and of model_type {kind!r}; Regard reads {', '.join(FAMILIES)}")
    try:
        config: Any = family.to_ours(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if lacking := [name for name in ("start", "end") if getattr(config, name) == NO_MARK]:
        warn(f"{path}: no word of the vocabulary is its {' or '.join(lacking)} mark; it is read as a model without")
    tokenizers = _tokenizers(folder, config)
    given = Given(values)
    longest = int(given.number("max_position_embeddings", given.number("n_positions", 1024)))
    if given.problems:
        raise UserError(f"{path}: {'; '.join(given.problems)}")
    if config.both_ways:  # an encoder alone
        if tokenizers is not None:  # its settings do not say which these are
            start, end, mask = (tokenizers.text.id_of(name) for name in ("[CLS]", "[SEP]", MASK))
            if start is not None and end is not None and mask is not None:
                config = replace(config, start=start, end=end, mask=mask)
        config, longest = _read_sentences(folder, config, longest)
    weights = read_weights(folder, shapes_of(config), family.weights, family.ignored)
    spec, model = spec_of(config), MODELS[type(config)](config)
    model.load_state_dict(weights, strict=False)  # tied tables are stored once
    search = replace(spec.search, never=_never(folder, values))
    return loaded_of(spec.name, search, model, tokenizers, min(longest, LONGEST), path)


def _never(folder: Path, values: Mapping[str, Any]) -> tuple[int, ...]:
    """Words that must not be said, such as Marian's padding, whose logit of 0 is often the best."""
    path = folder / GENERATION
    try:
        told = [values, _json(path) if path.is_file() else {}]
        return tuple({int(i) for each in told for (i,) in each.get("bad_words_ids") or []})
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UserError(f"{folder}: bad_words_ids has to be a list of single words ({error})") from error


def _read_sentences(folder: Path, config: BertConfig, longest: int) -> tuple[BertConfig, int]:
    """What sentence-transformers keeps beside an encoder: how one vector is made of a text, and where texts are cut."""
    if not (folder / "modules.json").is_file():
        return config, longest
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in _json(folder / "modules.json")]
        modes = {k.removeprefix("pooling_mode_"): v for k, v in _json(folder / "1_Pooling" / "config.json").items()}
        beside = [folder / name for name in ("config_sentence_transformers.json", "sentence_bert_config.json")]
        settings = [dict(_json(path)) for path in beside if path.is_file()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{folder}: how it makes vectors of texts cannot be read ({error!r}); copy it again") from error
    named = modes.get("pooling_mode") or "+".join(k for k, v in modes.items() if v is True and k != "include_prompt")
    given = Given({"pooling": named} | {k: v for each in settings for k, v in each.items()})
    pooling = given.only("pooling", None, *POOLING)
    given.only("do_lower_case", False, False)
    given.only("default_prompt_name", None, None)
    cut = given.number("max_seq_length", longest)
    if kinds not in (MODULES, MODULES[:2]):
        given.problems.append(f"its modules are {', '.join(kinds)}, and Regard knows {', '.join(MODULES)}")
    if given.problems:
        raise UserError(f"{folder}: {'; '.join(given.problems)}")
    return replace(config, pooling=POOLING[pooling]), min(int(cut), longest)


def _json(path: Path) -> Any:
    return json.loads(read_regular(path))


def _tokenizers(folder: Path, config: Any) -> Tokenizers | None:
    if config.encoder_layers and (folder / "source.spm").is_file():
        return marian_tokenizers(folder, config.target_vocabulary)
    controls = {} if config.both_ways else {config.start: "<start>", config.end: "</s>"}
    tokenizer = read_tokenizer(folder, config.target_vocabulary, controls)
    if tokenizer is None and (folder / "tokenizer.model").is_file():
        tokenizer = llama_tokenizer(folder / "tokenizer.model", config.target_vocabulary)
    return None if tokenizer is None else Tokenizers(tokenizer, tokenizer)


def write_folder(
    folder: Path, model: Any, kind: str, settings: Mapping[str, Any] = {}, more: Mapping[str, Tensor] = {}
) -> None:
    """As `transformers` reads it, with more settings and weights; raises UserError with what that kind cannot have."""
    family = FAMILIES[kind]
    config, ours = _in_halves(model.config, {name: p.detach() for name, p in model.named_parameters()})
    values = family.to_theirs(config)
    theirs = {**weights_of(ours, family.weights), **more}
    if family.shape is TransformerConfig:  # which must have one
        theirs.setdefault(LEAD, torch.zeros(1, config.target_vocabulary))
    for name in family.sinusoids:
        theirs[name] = Sinusoid(config.width, "halves")(torch.arange(values["max_position_embeddings"])).float()
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "model.safetensors", save({name: x.contiguous() for name, x in theirs.items()}, {"format": "pt"}))
    write(folder / "config.json", json.dumps({"model_type": kind, **values, **settings}, indent=1).encode())


def _in_halves(config: Any, weights: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
    """The same model with all sines first, where it had sines and cosines by turns."""
    place = config.position
    if place.layout == "halves" or place.kind not in ("sinusoid", "rotary"):
        return config, weights
    width = config.width if place.kind == "sinusoid" else config.attention.head_width
    order, moved = torch.arange(width).view(-1, 2).T.flatten(), dict(weights)
    for name, weight in weights.items():
        axis = next((axis for pattern, axis in WIDTHS.items() if re.fullmatch(pattern, name)), None)
        if place.kind == "sinusoid" and axis is not None:
            moved[name] = weight.index_select(axis, order)
        elif place.kind == "rotary" and re.search(r"self_attention\.to_[qk]\.", name):
            moved[name] = weight.unflatten(0, (-1, width))[:, order].flatten(0, 1)
    return replace(config, position=replace(place, layout="halves")), moved


def kind_of(config: Any) -> str:
    """The family that can hold a model of ours, or why none can."""
    reasons = []
    for kind, family in FAMILIES.items():
        if family.shape is type(config):
            try:
                family.to_theirs(config)
                return kind
            except UserError as error:
                reasons.append(f"{kind}: {error}")
    told = "; ".join(reasons) or f"none is {config.kind}; use `to` onnx"
    raise UserError(f"no kind of model there is like this one; {told}")


def write_reader(loaded: Loaded, folder: Path, rows: list[list[int]]) -> str:
    """One with BERT below; tells how far its answers are from ours."""
    config: Any = loaded.config
    reasons = []
    if not isinstance(config.trunk, BertConfig):
        reasons.append(f"{config.trunk.kind} reads here, and there are readers with BERT alone")
    if config.pooling != "first" and not config.of_tokens:
        reasons.append(f"model.pooling is {config.pooling}, and theirs is first")
    if config.symmetric:
        reasons.append("pairs are read in both orders")
    if reasons:
        raise UserError(f"no kind of model there is like this one: {'; '.join(reasons)}")
    kind, name, settings = HEADS[config.question]
    settings = {"architectures": [f"BertFor{kind}"], **settings}
    if config.labels:
        settings["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
        settings["label2id"] = {label: i for i, label in enumerate(config.labels)}
    weight, bias = (p.detach() * config.spread for p in (loaded.model.head.weight, loaded.model.head.bias))
    head = {f"{name}.weight": weight, f"{name}.bias": bias + config.center}
    write_folder(folder, loaded.model.trunk, "bert", settings, head)
    return f"BertFor{kind}, {compare_numbers(_answers(loaded, folder, rows, kind), 'answers to')}"


def _answers(loaded: Loaded, folder: Path, rows: list[list[int]], kind: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Ours to each text, and theirs."""
    config = loaded.model.config
    theirs = getattr(installed("transformers"), f"AutoModelFor{kind}").from_pretrained(folder).eval()
    for row in rows:
        segments = (torch.arange(len(row)) > len(row) // 2).long()[None]
        ours = loaded.model(replace(Padded.of([row]), segments=segments)) * config.spread + config.center
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
