"""From text files to a tokenizer and a store of ids, once per run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from zlib import crc32

from regard.data.batches import waste
from regard.data.config import DataConfig, PairsConfig
from regard.data.store import Store, stored
from regard.data.text import Pair, count_lines, files_of, pairs
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.errors import UserError
from regard.files import digest, sealed, unsealed, write
from regard.progress import Progress
from regard.tasks.folder import Loaded, has_tokenizers, load_tokenizers, save_tokenizers
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.task import Left, Translation

CHUNK = 4096  # pairs encoded at once
WHILE = 100_000  # pairs
HELD = ("valid.source", "valid.target", "valid.json")  # held-out pairs, and the sums of their files
SAMPLE = 2_000_000  # pairs that tokenizers learn from at most, evenly over the corpus


def files(recipe: TranslationRecipe) -> list[Path]:
    """The data files that a recipe names."""
    return [path for corpus in (*recipe.data.train, *recipe.data.valid) for path in files_of(corpus)]


def prepare(recipe: TranslationRecipe, folder: Path, base: Loaded | None = None) -> Translation:
    """The pairs to train on and to validate on."""
    tokenizers = tokenizers_for(recipe.data, folder)
    store, left = store_for(recipe.data, tokenizers, folder)
    task = Translation(
        tokenizers,
        store,
        held_out(recipe.data, folder),
        batch_tokens=recipe.train.batch_tokens,
        search=recipe.search,
        smoothing=recipe.train.label_smoothing,
        metric=recipe.train.metric,
    )
    odd = "validation pairs: source and target seem to have changed places; the score would mislead, so look\n"
    batches = task.batches(recipe.train.seed, 0)
    padding = " and ".join(f"{waste(batches, lengths):.1%}" for lengths in (task.source_lengths, task.target_lengths))
    task.about = odd if recipe.data.valid and exchanged(recipe.data) else ""
    task.about += f"training on {len(store):,} pairs; {f'{left}; ' if left else ''}padding: {padding} of the batches"
    task.left = left
    return task


def tokenizers_for(config: DataConfig, folder: Path) -> Tokenizers:
    """Those of the folder, or trained now and saved before anything else happens."""
    if has_tokenizers(folder):
        return load_tokenizers(folder)
    tags = sorted({pair.tag for pair in config.train if pair.tag})

    def side(*which: str) -> Iterator[str]:
        every = -(-max(1, sum(map(count_lines, config.train))) // SAMPLE)
        for i, pair in enumerate(_all_pairs(config, "learn words")):
            if i % every == 0:
                yield from (getattr(pair, name) for name in which)

    if config.target_tokenizer is None:
        joint = Tokenizer.train(side("source", "target"), config.tokenizer, tags)
        trained = Tokenizers(joint, joint)
    else:
        ours = Tokenizer.train(side("source"), config.tokenizer, tags)
        trained = Tokenizers(ours, Tokenizer.train(side("target"), config.target_tokenizer))
    save_tokenizers(folder, trained)
    return trained


def store_for(config: DataConfig, tokenizers: Tokenizers, folder: Path) -> tuple[Store, Left | None]:
    """The training pairs as ids, memory-mapped; made once, when it can be told what was left out."""
    left = Left()
    rows = partial(_rows, config, tokenizers, left)
    store = stored(folder / "store", rows, vocabulary=max(tokenizers.sizes))
    return store, left if left.read else None


def held_out(config: DataConfig, folder: Path) -> list[Pair]:
    """The validation pairs, whole: nothing is left out of what is measured."""
    corpora = (_set_aside(config, folder),) if config.hold_out else config.valid
    return [pair for corpus in corpora for pair in pairs(corpus)]


def exchanged(config: DataConfig) -> bool:
    """Whether the words say that source and target of the validation pairs have changed places."""
    trained, held = _words(config.train[0]), _words(config.valid[0])
    common = [[len(ours & theirs) for theirs in held] for ours in trained]
    return common[0][1] + common[1][0] > common[0][0] + common[1][1]


def _words(corpus: PairsConfig) -> tuple[set[str], set[str]]:
    some = list(islice(pairs(corpus), CHUNK))
    return {w for pair in some for w in pair.source.split()}, {w for pair in some for w in pair.target.split()}


def _set_aside(config: DataConfig, folder: Path) -> PairsConfig:
    """The pairs that training does without, written to the folder once, and again if the files were damaged."""
    paths, sums = [folder / name for name in HELD[:2]], folder / HELD[2]
    stored: dict[str, str] | None = None
    with suppress(OSError, ValueError, AttributeError):
        stored = unsealed(json.loads(sums.read_bytes()))
    if stored != {path.name: digest(path) for path in paths if path.exists()}:
        held = [pair for pair in chain.from_iterable(map(pairs, config.train)) if _is_held(pair, config)]
        if not held:
            raise UserError(f"hold_out {config.hold_out:g} of so few pairs is none; raise it, or give valid")
        for path, texts in zip(paths, zip(*(pair[:2] for pair in held), strict=True), strict=True):
            write(path, "".join(f"{' '.join(text.split())}\n" for text in texts).encode())
        write(sums, sealed({path.name: digest(path) for path in paths}))
    return PairsConfig(source=str(paths[0]), target=str(paths[1]))


def _is_held(pair: Pair, config: DataConfig) -> bool:
    return crc32(pair.source.encode()) < config.hold_out * (1 << 32)


def _rows(config: DataConfig, tokenizers: Tokenizers, left: Left) -> Iterator[tuple[list[int], list[int]]]:
    for tag, members in groupby(_all_pairs(config, "encode"), key=lambda pair: pair.tag):
        for chunk in chunks(members):
            full = [pair for pair in chunk if pair.source.strip() and pair.target.strip()]
            left.read += len(chunk)
            left.empty += len(chunk) - len(full)
            sources = tokenizers.read([pair.source for pair in full], tag)
            targets = tokenizers.target.encode([pair.target for pair in full])
            for source, target in zip(sources, targets, strict=True):
                if max(len(source), len(target) + 1) > config.max_length:
                    left.long += 1
                else:
                    yield source, target


def _all_pairs(config: DataConfig, what: str) -> Iterator[Pair]:
    """The training pairs, with a bar where there are so many that it takes a while."""
    total = sum(map(count_lines, config.train))
    with Progress(total, what) if total > WHILE else nullcontext() as progress:
        for i, pair in enumerate(chain.from_iterable(map(pairs, config.train))):
            if progress is not None and i % CHUNK == 0:
                progress.update(i)
            if not _is_held(pair, config):
                yield pair


def chunks(stream: Iterator[Pair]) -> Iterator[list[Pair]]:
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
