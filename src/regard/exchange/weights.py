"""Weights under other names: one table of rules serves both directions."""

from __future__ import annotations

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

TOLD = 40  # problems at most
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
