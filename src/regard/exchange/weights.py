"""Weights under the names that Hugging Face's models have for them: one table serves both directions."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.bounds import memory
from regard.errors import UserError
from regard.files import open_regular, read_regular

TOLD = 40  # problems at most
TURNED = re.compile(r".*\.c_(attn|proj|fc)\.weight")  # GPT-2's, which are (in, out)
SKIPPED, UNUSED = "embed_positions.weight", 2  # of BART, and how many first rows of it nothing uses
LEAD = "final_logits_bias"  # has an axis of 1 before all
FLOATS = ("F64", "F32", "F16", "BF16")
Shape = tuple[int, ...]


def grouped(ours: Iterable[str], names: Mapping[str, str]) -> dict[str, list[str]]:
    """Weights of ours by the one of theirs that holds them, one after the other; all of a name that the table does not
    have stays as it is."""
    known, groups = re.compile("|".join(map(re.escape, names))), dict[str, list[str]]()
    for name in ours:
        groups.setdefault(known.sub(lambda part: names[part[0]], name), []).append(name)
    return groups


def weights_of(ours: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """As they store them."""
    weights = {name: torch.cat([ours[part] for part in parts]) for name, parts in grouped(ours, names).items()}
    for name, x in weights.items():
        if name.endswith(SKIPPED):
            x = torch.cat((x.new_zeros(UNUSED, *x.shape[1:]), x))
        weights[name] = (x[None] if name == LEAD else x.T if TURNED.fullmatch(name) else x).contiguous()
    return weights


def read_weights(folder: Path, ours: Mapping[str, Shape], names: Mapping[str, str], ignored: str) -> dict[str, Tensor]:
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
    prefix = f"{next(iter(names.values())).partition('.')[0]}."
    if not any(name.startswith(prefix) for name in shapes):  # the trunk alone was saved
        names = {part: theirs.removeprefix(prefix) for part, theirs in names.items()}
    empty = {name: torch.empty(shape, device="meta") for name, shape in ours.items()}
    expected = {name: tuple(x.shape) for name, x in weights_of(empty, names).items()}
    for name in sorted(expected.keys() | shapes.keys()):
        if shapes.get(name) != expected.get(name) and (name in expected or not re.fullmatch(ignored, name)):
            problems.append(f"{name} is {said(shapes.get(name))}, expected is {said(expected.get(name), 'nothing')}")
    odd = [name for name in expected if kinds.get(name) not in (None, *FLOATS)]
    problems += [f"{name} is of {kinds[name]}, and only {', '.join(FLOATS)} are read" for name in odd]
    _raise_any(folder, problems)
    weights: dict[str, Tensor] = {}
    for name, parts in grouped(ours, names).items():
        with safe_open(files[name], "pt") as file:
            x = file.get_tensor(name).float()
        if not torch.isfinite(x).all():
            problems.append(f"{name} holds numbers that are not finite")
        x = x[0] if name == LEAD else x.T if TURNED.fullmatch(name) else x
        rows = x[UNUSED if name.endswith(SKIPPED) else 0 :].split([ours[part][0] for part in parts])
        weights |= {part: some.contiguous() for part, some in zip(parts, rows, strict=True)}
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


# What parts of our names are called there; they are joined where several have one name.
GPT2 = {
    "embedding.table": "transformer.wte.weight", "embedding.position.encoding.table": "transformer.wpe.weight",
    "decoder.norm": "transformer.ln_f", "decoder.blocks": "transformer.h", "head.table": "lm_head.weight",
    "self_residual.norm": "ln_1", "feedforward_residual.norm": "ln_2", "self_attention.to_out": "attn.c_proj",
    "feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj",
    **{f"self_attention.to_{part}": "attn.c_attn" for part in "qkv"},
}  # fmt: skip
LLAMA = {
    "embedding.table": "model.embed_tokens.weight", "decoder.norm": "model.norm", "decoder.blocks": "model.layers",
    "self_residual.norm": "input_layernorm", "feedforward_residual.norm": "post_attention_layernorm",
    **{f"self_attention.to_{part}": f"self_attn.{part}_proj" for part in "qkv"}, "head.table": "lm_head.weight",
    "self_attention.to_out": "self_attn.o_proj",
    **{f"feedforward.{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}  # fmt: skip
BERT = {
    "embedding.table": "bert.embeddings.word_embeddings.weight", "encoder.blocks": "bert.encoder.layer",
    "embedding.position.encoding.table": "bert.embeddings.position_embeddings.weight",
    "embedding.segment_table": "bert.embeddings.token_type_embeddings.weight",
    "embedding.norm": "bert.embeddings.LayerNorm", "self_residual.norm": "attention.output.LayerNorm",
    "self_attention.to_q": "attention.self.query", "self_attention.to_k": "attention.self.key",
    "self_attention.to_v": "attention.self.value", "self_attention.to_out": "attention.output.dense",
    "feedforward.up": "intermediate.dense", "feedforward.down": "output.dense",
    "feedforward_residual.norm": "output.LayerNorm", "pooler": "bert.pooler.dense", "follows": "cls.seq_relationship",
    "guess.map": "cls.predictions.transform.dense", "guess.norm": "cls.predictions.transform.LayerNorm",
    "guess.head.bias": "cls.predictions.bias", "guess.head.table": "cls.predictions.decoder.weight",
}  # fmt: skip
PAIR = {  # Marian's, Pegasus's and BART's
    "source_embedding.table": "model.shared.weight", "head.bias": LEAD,
    "feedforward.up": "fc1", "feedforward.down": "fc2", "feedforward_residual.norm": "final_layer_norm",
}  # fmt: skip
for _ours, _side in (("source", "encoder"), ("target", "decoder")):
    PAIR[f"{_ours}_embedding.position.encoding.table"] = f"model.{_side}.{SKIPPED}"
    PAIR[f"{_ours}_embedding.norm"] = f"model.{_side}.layernorm_embedding"
    PAIR |= {f"{_side}.blocks": f"model.{_side}.layers", f"{_side}.norm": f"model.{_side}.layer_norm"}
for _ours, _theirs in (("self", "self_attn"), ("cross", "encoder_attn")):
    PAIR |= {f"{_ours}_attention.to_{part}": f"{_theirs}.{part}_proj" for part in ("q", "k", "v", "out")}
    PAIR[f"{_ours}_residual.norm"] = f"{_theirs}_layer_norm"
