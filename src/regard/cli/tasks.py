"""From a recipe to what is trained: its words, its task, its model and its trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from regard.data.config import LabelTask
from regard.data.documents import place_of
from regard.data.examples import place_of as place_of_examples
from regard.data.examples import split
from regard.data.text import check_regular, files_of
from regard.data.tokenizer import ForeignTokenizer, Tokenizer, Tokenizers
from regard.engine.engine import engine_of
from regard.errors import UserError
from regard.exchange.folders import load_any, placed, words_of
from regard.models.build import build
from regard.models.config import RecurrentTextConfig
from regard.nn.lora import hold
from regard.tasks import texts
from regard.tasks.bothways import BothWays
from regard.tasks.folder import Loaded, has_tokenizers, load_tokenizers, save_model, save_tokenizers
from regard.tasks.language import LanguageModelling
from regard.tasks.layout import Layout, check_room, is_encoder
from regard.tasks.masked import Blanks, MaskedModelling
from regard.tasks.prepare import Left, exchanged, held_out, store_for, tokenizers_for
from regard.tasks.reading import Reading
from regard.tasks.translation import Translation
from regard.tasks.tuning import Grown, origins, reader_for, settle_reader, take_weights
from regard.train.config import (
    AnyRecipe,
    BothWaysRecipe,
    MaskedRecipe,
    ReadRecipe,
    ReadTrainConfig,
    Recipe,
    RunningRecipe,
    TrainConfig,
    TuneConfig,
)
from regard.train.distributed import ALONE, World
from regard.train.loop import Trainer

RunningTask = LanguageModelling | MaskedModelling | BothWays
AnyTask = Translation | RunningTask | Reading
READ = get_args(LabelTask)
MODEL_FILES = ("config.json", "tokenizer*", "vocab*", "merges*")  # beside the weights
Told = Callable[[dict[str, float], int], None]  # what is told of metrics, at which step


def save_words(recipe: AnyRecipe, out: Path, start: Path | None, new: Sequence[str] = ()) -> None:
    """The words of a model that is begun with, once, before anything else; it keeps them, and may get new ones."""
    begun = _begun(recipe, start)
    given = begun or getattr(recipe.data, "words", None)
    if new and begun is None:
        raise UserError("--new-words adds to the words of a model that is begun with; give it by --from")
    if has_tokenizers(out):
        if missing := set(new) - set(load_tokenizers(out).target.new_words):
            raise UserError(f"{out} was begun without the new word {min(missing)!r}; choose another --out")
    elif given is not None:
        found = words_of(placed(Path(given)))
        if isinstance(recipe, Recipe) and isinstance(found.target, ForeignTokenizer):
            raise UserError(
                f"{given}: a translator that another tool made runs here, but is not trained further; drop --from"
            )
        save_tokenizers(out, found.extended(new))


def inputs_of(recipe: AnyRecipe, start: Path | None) -> list[Path]:
    """Every file that a run reads: its data, and the model that it begins with."""
    corpora: Sequence[Any] = (*recipe.data.train, *recipe.data.valid)
    if isinstance(recipe, Recipe):
        files = [path for corpus in corpora for path in files_of(corpus)]
    elif isinstance(recipe, ReadRecipe):
        files = [place_of_examples(corpus, recipe.task) for corpus in corpora]
    else:
        files = [place_of(corpus) for corpus in corpora]
    for base in filter(None, (_begun(recipe, start), getattr(recipe.data, "words", None))):
        folder = placed(Path(base))
        files += [folder] if folder.is_file() else sorted(folder.glob("*.safetensors"))
        files += [path for name in MODEL_FILES for path in sorted(folder.glob(name))]
    return [check_regular(path) for path in files]


def _begun(recipe: AnyRecipe, start: Path | None) -> str | Path | None:
    """The model that is begun with."""
    return recipe.model.base if isinstance(recipe, ReadRecipe) else start


@cache
def _given(name: str | Path) -> Loaded:
    return load_any(placed(Path(name)))


def task_for(recipe: AnyRecipe, out: Path) -> tuple[AnyTask, str]:
    """What is trained on, and that in words."""
    if isinstance(recipe, ReadRecipe):
        reading = reading_for(recipe, out)
        cut = f"; {reading.layout.cut:,} longer than data.max_length, cut" if reading.layout.cut else ""
        return reading, f"training on {len(reading.units):,} examples, validating on {len(reading.held):,}{cut}"
    if not isinstance(recipe, Recipe):
        running = text_task_for(recipe, out)
        return running, f"training on {len(running.ids):,} tokens, {running.rows} texts of {running.context} at once"
    task, left = translation_for(recipe, out)
    swapped = recipe.data.valid and exchanged(recipe.data)
    odd = "validation pairs: source and target seem to have changed places; the score would mislead, so look\n"
    padding = " and ".join(f"{share:.1%}" for share in task.padding(recipe.train.seed))
    out_of = f"{left}; " if left else ""
    told = f"training on {len(task.store):,} pairs; {out_of}padding: {padding} of the batches"
    return task, (odd if swapped else "") + told


def translation_for(recipe: Recipe, out: Path) -> tuple[Translation, Left | None]:
    """The pairs to train on, and what was left out of them if that was decided now."""
    tokenizers = tokenizers_for(recipe.data, out)
    store, left = store_for(recipe.data, tokenizers, out)
    task = Translation(
        tokenizers,
        store,
        held_out(recipe.data, tokenizers, out),
        batch_tokens=recipe.train.batch_tokens,
        search=recipe.search,
        smoothing=recipe.train.label_smoothing,
        metric=recipe.train.metric,
    )
    return task, left


def text_task_for(recipe: RunningRecipe, out: Path) -> RunningTask:
    """The text to train on, and what is held out of it."""
    data, batch_tokens = recipe.data, recipe.train.batch_tokens
    tokenizer = texts.tokenizer_for(data, out)
    ids, held = texts.ids_for(data, tokenizer, out), texts.held_out(data, tokenizer)
    if isinstance(recipe, MaskedRecipe):
        share, whole_words, pairs = recipe.data.masked, recipe.data.whole_words, recipe.model.next_sentence
        blanks = Blanks(tokenizer, context=data.context, share=share, whole_words=whole_words, pairs=pairs)
        return MaskedModelling(blanks, ids, held, batch_tokens=batch_tokens)
    if isinstance(recipe, BothWaysRecipe):
        return BothWays(tokenizer, ids, held, context=data.context, batch_tokens=batch_tokens)
    return LanguageModelling(
        tokenizer, ids, held, context=data.context, batch_tokens=batch_tokens, apart=data.apart,
        carry=isinstance(recipe.model, RecurrentTextConfig), sampled=recipe.train.sampled,
    )  # fmt: skip


def reading_for(recipe: ReadRecipe, out: Path) -> Reading:
    """The examples to learn from, as the model that is begun with, or a new one, reads them."""
    examples, held = split(recipe.data, recipe.task)
    start = None if recipe.model.base is None else _given(recipe.model.base).config
    if start is None and not (out / "tokenizer.json").exists():
        trained = Tokenizer.train((text for e in examples for text in e.texts), recipe.data.tokenizer)
        save_tokenizers(out, Tokenizers(trained, trained))
    tokenizer = load_tokenizers(out).target
    config = reader_for(recipe.model, recipe.task, tokenizer, start, examples)
    check_room(config, recipe.data.max_length)
    return Reading(
        Layout(tokenizer, config, recipe.data.max_length),
        examples,
        held,
        batch_tokens=recipe.train.batch_tokens,
        auxiliary=recipe.train.auxiliary,
        smoothing=recipe.train.label_smoothing,
        metric=None if recipe.train.metric == "default" else recipe.train.metric,
    )


def trainer_for(
    recipe: AnyRecipe,
    out: Path,
    task: AnyTask,
    start: Path | None = None,
    report: Told | None = None,
    world: World = ALONE,
) -> Trainer:
    """A new model, or one with the weights of another, and what trains it."""
    model = _model(recipe, out, task, start)
    longest = recipe.data.max_length if isinstance(recipe, Recipe | ReadRecipe) else recipe.data.context
    return Trainer(
        task,
        model,
        _counted(recipe.train, task),
        out,
        engine=lambda model: engine_of(model, torch.get_num_threads()),
        keep_best=lambda model, metrics: save_model(out, model, recipe.task, recipe.search, longest, metrics),
        report=report,
        world=world,
    )


def _model(recipe: AnyRecipe, out: Path, task: AnyTask, start: Path | None) -> nn.Module:
    begun, seed, marks = _begun(recipe, start), recipe.train.seed, False
    model: Any
    if isinstance(task, Reading):
        model = build(task.layout.config, seed)
        settle_reader(model, task.auxiliary > 0)
        marks = not is_encoder(task.layout.config.trunk) and _given(str(begun)).task not in READ if begun else False
        begun = None if task.layout.config.fresh else begun
    else:
        model = build(recipe.model.sized(*task.sizes), seed)  # type: ignore[union-attr]
    grown = Grown()
    if begun is not None:
        now, before = load_tokenizers(out), words_of(placed(Path(begun)))
        grown = Grown(origins(now.source, before.source, marks), origins(now.target, before.target, marks))
        take_weights(model, _given(begun).model, begun, grown)
    if isinstance(recipe.train, TuneConfig):
        frozen = recipe.train.frozen if isinstance(recipe.train, ReadTrainConfig) else 0
        hold(getattr(model, "trunk", model), frozen=frozen, rank=recipe.train.lora, seed=seed, grown=bool(grown.target))
    return model


def _counted(train: TrainConfig, task: AnyTask) -> TrainConfig:
    """With steps in the place of passes."""
    if not isinstance(train, ReadTrainConfig) or train.passes is None:
        return train
    steps = round(train.passes * len(task.batches(train.seed, 0)) / train.accumulate)
    return replace(train, steps=max(1, steps), passes=None)
