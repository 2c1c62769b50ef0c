"""Models that begin with the weights of others: what is kept of those, and how new words and marks begin."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.build import build
from regard.nn.lora import hold
from regard.rng import Key
from regard.tasks.config import BaseRecipe, TuneConfig
from regard.tasks.folder import Loaded, load_tokenizers
from regard.tasks.labelled.layout import MARKS

Origins = Sequence[Sequence[int]]  # of each new word the old ids that it begins as the mean of; of marks, none
NOISE = 0.1  # of the deviation of words: so far from their mean begins a mark that is made of nothing


def sized_model(recipe: BaseRecipe, task: Any, folder: Path, base: Loaded | None) -> nn.Module:
    """A model for the vocabulary of the run, or one with the weights of another."""
    model = build(recipe.model.sized(*task.sizes), recipe.train.seed)
    grown = begin(model, folder, base)
    if isinstance(recipe.train, TuneConfig):
        hold(model, rank=recipe.train.lora_rank, seed=recipe.train.seed, grown=grown)
    return model


def begin(model: nn.Module, folder: Path, base: Loaded | None, marks: bool = False) -> bool:
    """Take the weights of the model that is begun with; whether its last table grows, of the words that are said."""
    if base is None:
        return False
    now, before = load_tokenizers(folder), base.words
    source = origins(now.text, before.text, marks) if now.source.front is None else []
    target = origins(now.target, before.target, marks) if now.target.front is None else []
    take_weights(model, base.model, base.folder, source, target)
    return bool(target)


@torch.no_grad()
def take_weights(model: nn.Module, given: Any, where: Any, source: Origins = (), target: Origins = ()) -> None:
    """The weights of another model of the same shape, but for tables of what is read and what is said, which may be
    longer by new words: each begins as the mean of some old ones, or near the mean of all [Hewitt 2021]."""
    reads = hasattr(model, "trunk")
    ours = dict((model.trunk if reads else model).named_parameters())  # type: ignore[union-attr]
    theirs = dict(getattr(given, "trunk", given).named_parameters())
    new = {name for name in ours if reads and name.startswith("pooler.") and name not in theirs}
    more = {name: source if name.startswith("source") else target for name in ours}
    wrong = sorted(name for name in ours.keys() - new if not _fits(ours[name], theirs.get(name), len(more[name])))
    wrong += [] if reads else sorted(theirs.keys() - ours.keys())
    if wrong:
        raise UserError(f"{where} has another shape ({', '.join(wrong[:4])}); use the model section of its recipe.yaml")
    marks = MARKS if hasattr(given, "trunk") and not given.config.trunk.both_ways else 0  # they stay the last
    for name in ours.keys() - new:
        mine, old = ours[name], theirs[name]
        if mine.shape == old.shape:
            mine.copy_(old)
            continue
        first = len(old) - marks
        mine[:first], mine[first + len(more[name]) :] = old[:first], old[first:]
        for i, ids in enumerate(more[name], first):
            if ids:
                mine[i] = old[list(ids)].mean(0)
            else:
                drawn = Key(i, ("mark",)).generator().standard_normal(old.shape[1:])
                mine[i] = old.mean(0) + NOISE * old.std(0) * torch.from_numpy(drawn).to(old.dtype)


def _fits(ours: Tensor, theirs: Tensor | None, more: int) -> bool:
    if theirs is None or ours.dim() != theirs.dim() or ours.shape[1:] != theirs.shape[1:]:
        return False
    return len(ours) in (len(theirs), len(theirs) + more) if ours.dim() else True


def origins(tokenizer: Tokenizer, before: Tokenizer, marks: bool) -> list[list[int]]:
    """Of each row that a table grows by: the ids that its word was spelled by, and of marks none."""
    words = tokenizer.new_words[len(before.new_words) :]
    return [*before.encode(words), *([[]] * MARKS if marks else [])]
