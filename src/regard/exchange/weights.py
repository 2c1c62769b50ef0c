"""Weights under the names that Hugging Face's models have for them: one table of rules serves both directions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.bounds import memory
from regard.errors import UserError
from regard.files import open_regular, read_regular
from regard.models.config import BertConfig, GptConfig, TransformerConfig

TOLD = 40  # problems at most
PARTS = ("q", "k", "v", "out")  # of attention
FLOATS = ("F64", "F32", "F16", "BF16")
Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Rule:
    """Our tensors, and theirs, which holds them one after the other."""

    ours: tuple[str, ...]
    theirs: str
    turned: bool = False
    """Whether theirs is (in, out)."""
    skip: int = 0
    """First rows of theirs that nothing uses."""
    lead: bool = False
    """Whether theirs has an axis of 1 before all."""
    zeros: Shape = ()
    """The shape of theirs where we have nothing like it."""

    def shape(self, ours: Shapes) -> Shape:
        """Of theirs."""
        return tuple(self.to_theirs({name: torch.empty(ours[name], device="meta") for name in self.ours}).shape)

    def to_ours(self, theirs: Tensor, shapes: Shapes) -> dict[str, Tensor]:
        plain = theirs[0] if self.lead else theirs.T if self.turned else theirs
        parts = plain[self.skip :].split([shapes[name][0] for name in self.ours])
        return {name: part.contiguous() for name, part in zip(self.ours, parts, strict=True)}

    def to_theirs(self, ours: Mapping[str, Tensor]) -> Tensor:
        joined = torch.cat([ours[name] for name in self.ours]) if self.ours else torch.zeros(self.zeros)
        if self.skip:
            joined = torch.cat((joined.new_zeros(self.skip, *joined.shape[1:]), joined))
        return (joined[None] if self.lead else joined.T if self.turned else joined).contiguous()


def read_weights(folder: Path, rules: list[Rule], ours: Shapes, prefix: str, ignored: str) -> dict[str, Tensor]:
    """Every tensor of ours; whatever is missing, left over or of another shape is told at once, before any is read."""
    files, shapes, kinds, problems = dict[str, Path](), dict[str, Shape](), dict[str, str](), list[str]()
    for path in _files(folder):
        open_regular(path, memory() // 2).close()
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    files[name], shapes[name], kinds[name] = path, tuple(part.get_shape()), part.get_dtype()
        except (OSError, SafetensorError) as error:
            problems.append(f"{path.name} cannot be read ({error})")
    _raise_any(folder, problems)
    if not any(name.startswith(prefix) for name in shapes):  # the trunk alone was saved
        rules = [replace(rule, theirs=rule.theirs.removeprefix(prefix)) for rule in rules]
    expected = {rule.theirs: rule.shape(ours) for rule in rules}
    for name in sorted(expected.keys() | shapes.keys()):
        if shapes.get(name) != expected.get(name) and (name in expected or not re.fullmatch(ignored, name)):
            problems.append(f"{name} is {said(shapes.get(name))}, expected is {said(expected.get(name), 'nothing')}")
    odd = [name for name in expected if kinds.get(name, FLOATS[0]) not in FLOATS]
    problems += [f"{name} is of {kinds[name]}, and only {', '.join(FLOATS)} are read" for name in odd]
    _raise_any(folder, problems)
    weights: dict[str, Tensor] = {}
    for rule in rules:
        with safe_open(files[rule.theirs], "pt") as file:
            tensor = file.get_tensor(rule.theirs).float()
        if not torch.isfinite(tensor).all():
            problems.append(f"{rule.theirs} holds numbers that are not finite")
        weights |= rule.to_ours(tensor, ours)
    _raise_any(folder, problems)
    return weights


def _files(folder: Path) -> list[Path]:
    """The safetensors of a folder, one or several by an index; never anything outside it."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return [single]
    if not index.exists():
        pickles = sorted(folder.glob("*.bin")) or sorted(folder.glob("*.pt*")) or sorted(folder.glob("*.ckpt"))
        if pickles:
            raise UserError(
                f"{pickles[0]}: is a pickle, which can run any code when it is read, so Regard does not; where you "
                "trust it, load it with transformers and save_pretrained() it, which writes model.safetensors"
            )
        raise UserError(f"{folder}: holds no model.safetensors; copy the whole folder")
    try:
        names = set(json.loads(read_regular(index))["weight_map"].values())
        odd = [name for name in names if not isinstance(name, str) or Path(name).name != name]
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UserError(f"{index}: is no index of files ({error}); copy the folder again") from error
    if odd:
        raise UserError(f"{index}: names files outside the folder ({odd[0]!r}); do not trust this folder")
    missing = sorted(name for name in names if not (folder / name).is_file())
    if missing:
        raise UserError(f"{folder}: lacks {', '.join(missing[:TOLD])}; copy the whole folder")
    return [folder / name for name in sorted(names)]


def said(shape: Shape | None, none: str = "missing") -> str:
    return none if shape is None else "x".join(map(str, shape)) or "a number"


def _raise_any(folder: Path, problems: list[str]) -> None:
    if problems:
        more = f"\n  and {len(problems) - TOLD} more" if len(problems) > TOLD else ""
        raise UserError(f"{folder}: the weights do not fit:\n  " + "\n  ".join(problems[:TOLD]) + more)


def _same(*pairs: tuple[str, str]) -> list[Rule]:
    return [Rule((ours,), theirs) for ours, theirs in pairs]


def _affine(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    return _same(*((f"{ours}.{leaf}", f"{theirs}.{leaf}") for leaf in (("weight", "bias") if bias else ("weight",))))


def _inside(prefix: str, rules: list[Rule]) -> list[Rule]:
    return [replace(rule, theirs=prefix + rule.theirs) for rule in rules]


def _layers(count: int, ours: str, theirs: str, parts: Mapping[str, str], bias: bool = True) -> list[Rule]:
    """Maps and norms of all layers."""
    pairs = [(f"{ours}.{i}.{a}", f"{theirs}.{i}.{b}") for i in range(count) for a, b in parts.items()]
    return [rule for pair in pairs for rule in _affine(*pair, bias)]


def _head(config: GptConfig) -> list[Rule]:
    return [] if config.tied else _same(("head.table", "lm_head.weight"))


def gpt2(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "wte.weight"), ("embedding.position.encoding.table", "wpe.weight"))
    rules += _affine("decoder.norm", "ln_f")
    norms = {"self_residual.norm": "ln_1", "feedforward_residual.norm": "ln_2"}
    rules += _layers(config.num_layers, "decoder.blocks", "h", norms)
    maps = {"self_attention.to_out": "attn.c_proj", "feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}
    for i in range(config.num_layers):
        ours, theirs = f"decoder.blocks.{i}", f"h.{i}"
        for leaf, turned in (("weight", True), ("bias", False)):
            parts = tuple(f"{ours}.self_attention.to_{part}.{leaf}" for part in "qkv")
            rules.append(Rule(parts, f"{theirs}.attn.c_attn.{leaf}", turned))
            rules += [Rule((f"{ours}.{a}.{leaf}",), f"{theirs}.{b}.{leaf}", turned) for a, b in maps.items()]
    return [*_inside("transformer.", rules), *_head(config)]


def llama(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "embed_tokens.weight"), ("decoder.norm.weight", "norm.weight"))
    norms = {"self_residual.norm": "input_layernorm", "feedforward_residual.norm": "post_attention_layernorm"}
    maps = {f"self_attention.to_{ours}": f"self_attn.{theirs}_proj" for ours, theirs in zip(PARTS, "qkvo", strict=True)}
    maps |= {f"feedforward.{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
    rules += _layers(config.num_layers, "decoder.blocks", "layers", norms, bias=False)
    rules += _layers(config.num_layers, "decoder.blocks", "layers", maps, config.bias)
    return [*_inside("model.", rules), *_head(config)]


def bert(config: BertConfig) -> list[Rule]:
    tables = {"table": "word", "position.encoding.table": "position", "segment_table": "token_type"}
    rules = [Rule((f"embedding.{a}",), f"embeddings.{b}_embeddings.weight") for a, b in tables.items()]
    rules += _affine("embedding.norm", "embeddings.LayerNorm")
    maps = zip(PARTS, ("self.query", "self.key", "self.value", "output.dense"), strict=True)
    parts = {f"self_attention.to_{ours}": f"attention.{theirs}" for ours, theirs in maps}
    parts |= {"feedforward.up": "intermediate.dense", "feedforward.down": "output.dense"}
    parts |= {"self_residual.norm": "attention.output.LayerNorm", "feedforward_residual.norm": "output.LayerNorm"}
    rules += _layers(config.num_layers, "encoder.blocks", "encoder.layer", parts)
    if config.pooler:
        rules += _affine("pooler", "pooler.dense")
    if not config.guesses:
        return _inside("bert.", rules)
    heads = _affine("guess.map", "transform.dense") + _affine("guess.norm", "transform.LayerNorm")
    heads += _same(("guess.head.bias", "bias"))
    if not config.tied:
        heads += _same(("guess.head.table", "decoder.weight"))
    follows = _affine("follows", "cls.seq_relationship") if config.next_sentence else []
    return [*_inside("bert.", rules), *_inside("cls.predictions.", heads), *follows]


def encoder_decoder(config: TransformerConfig) -> list[Rule]:
    """Marian's, Pegasus's and BART's."""
    rules = _same(("source_embedding.table", "shared.weight"))
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if config.position.kind == "learned":  # BART leaves two rows unused
            rules.append(Rule((f"{embedding}.position.encoding.table",), f"{side}.embed_positions.weight", skip=2))
        if config.embedding_norm:
            rules += _affine(f"{embedding}.norm", f"{side}.layernorm_embedding")
        parts = {"feedforward.up": "fc1", "feedforward.down": "fc2", "feedforward_residual.norm": "final_layer_norm"}
        for name, theirs in (("self", "self_attn"), ("cross", "encoder_attn"))[: 1 if side == "encoder" else 2]:
            parts |= {f"{name}_attention.to_{part}": f"{theirs}.{part}_proj" for part in PARTS}
            parts[f"{name}_residual.norm"] = f"{theirs}_layer_norm"
        rules += _layers(getattr(config, f"{side}_layers"), f"{side}.blocks", f"{side}.layers", parts)
        if config.placement == "pre":
            rules += _affine(f"{side}.norm", f"{side}.layer_norm")
    bias = ("head.bias",) if config.output_bias else ()
    zeros = (config.target_vocabulary,)
    return [*_inside("model.", rules), Rule(bias, "final_logits_bias", lead=True, zeros=zeros)]
