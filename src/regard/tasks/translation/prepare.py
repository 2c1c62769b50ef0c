"""From text files to a tokenizer and a store of ids, once per run."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from zlib import crc32

from regard.data.batches import waste
from regard.data.config import DataConfig, PairsConfig
from regard.data.input import kind_of, named
from regard.data.sample import CHUNK, all_pairs, chunks, forget, sample
from regard.data.store import Store, stored
from regard.data.text import Pair, files_of, pairs
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.errors import UserError
from regard.files import digest, sealed, unsealed, write
from regard.shapes import Row
from regard.tasks.folder import Loaded, has_tokenizers, load_tokenizers, save_tokenizers
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.task import Translation

HELD = ("valid.source", "valid.target", "valid.json")  # held-out pairs, and the sums of their files


def files(recipe: TranslationRecipe) -> list[Path]:
    """The data files that a recipe names."""
    corpora = (*recipe.data.train, *recipe.data.valid)
    paths = [path for corpus in corpora for path in files_of(corpus)]
    return paths + (named(pair.source for pair in all_pairs(corpora, "read")) if recipe.data.input else [])


def prepare(recipe: TranslationRecipe, folder: Path, base: Loaded | None = None) -> Translation:
    """The pairs to train on and to validate on."""
    tokenizers = tokenizers_for(recipe.data, folder)
    forget()
    store, left = store_for(recipe.data, tokenizers, folder)
    task = Translation(tokenizers, store, held_out(recipe.data, folder), recipe)
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
    tags, some = sorted({pair.tag for pair in config.train if pair.tag}), sample(config.train)[1]

    def side(*which: int) -> Iterator[str]:
        for pair in some:
            if not _is_held(pair[0], config):
                yield from (pair[i] for i in which)

    if config.input is not None:
        other = kind_of(config.input.kind).learned(config.input, side(0))
        trained = Tokenizers(other, Tokenizer.train(side(1), config.tokenizer))
    elif config.target_tokenizer is None:
        joint = Tokenizer.train(side(0, 1), config.tokenizer, tags)
        trained = Tokenizers(joint, joint)
    else:
        ours = Tokenizer.train(side(0), config.tokenizer, tags)
        trained = Tokenizers(ours, Tokenizer.train(side(1), config.target_tokenizer))
    save_tokenizers(folder, trained)
    return trained


def store_for(config: DataConfig, tokenizers: Tokenizers, folder: Path) -> tuple[Store, str]:
    """The training pairs as ids, memory-mapped; made once, when it can be told what was left out."""
    if config.hold_out and not _held_whole(folder):
        shutil.rmtree(folder / "store", ignore_errors=True)  # which is written with them
    left = list[str]()
    rows = partial(_rows, config, tokenizers, left, folder)
    return stored(folder / "store", rows, vocabulary=max(tokenizers.sizes)), "".join(left)


def held_out(config: DataConfig, folder: Path) -> list[Pair]:
    """The validation pairs, whole: nothing is left out of what is measured."""
    own = PairsConfig(source=str(folder / HELD[0]), target=str(folder / HELD[1]), input=config.input)
    return [pair for corpus in ((own,) if config.hold_out else config.valid) for pair in pairs(corpus)]


def exchanged(config: DataConfig) -> bool:
    """Whether the words say that source and target of the validation pairs have changed places."""
    if config.input is not None:
        return False
    trained, held = _words(config.train[0]), _words(config.valid[0])
    common = [[len(ours & theirs) for theirs in held] for ours in trained]
    return common[0][1] + common[1][0] > common[0][0] + common[1][1]


def _words(corpus: PairsConfig) -> tuple[set[str], set[str]]:
    some = list(islice(pairs(corpus), CHUNK))
    return {w for pair in some for w in pair.source.split()}, {w for pair in some for w in pair.target.split()}


def _held_whole(folder: Path) -> bool:
    """Whether the pairs that training does without are in the folder, as they were written."""
    with suppress(OSError, ValueError, AttributeError):
        stored = unsealed(json.loads((folder / HELD[2]).read_bytes()))
        return stored == {name: digest(folder / name) for name in HELD[:2]}
    return False


def _write_held(held: list[Pair], config: DataConfig, folder: Path) -> None:
    if not held:
        raise UserError(f"hold_out {config.hold_out:g} of so few pairs is none; raise it, or give valid")
    for name, texts in zip(HELD, zip(*(pair[:2] for pair in held), strict=True), strict=False):
        write(folder / name, "".join(f"{' '.join(text.split())}\n" for text in texts).encode())
    write(folder / HELD[2], sealed({name: digest(folder / name) for name in HELD[:2]}))


def _is_held(source: str, config: DataConfig) -> bool:
    return crc32(source.encode()) < config.hold_out * (1 << 32)


def _rows(data: DataConfig, tokenizers: Tokenizers, left: list[str], folder: Path) -> Iterator[tuple[Row, Row]]:
    """What is read of the pairs to train on; the others are set aside, and told in `left` at the end."""
    held, empty, long = list[Pair](), 0, 0
    for tag, members in groupby(all_pairs(data.train, "encode"), key=lambda pair: pair.tag):
        for chunk in chunks(members):
            ours: list[Pair] = []
            for pair in chunk:
                (held if _is_held(pair.source, data) else ours).append(pair)
            full = [pair for pair in ours if pair.source.strip() and pair.target.strip()]
            empty += len(ours) - len(full)
            sources = tokenizers.read([pair.source for pair in full], tag)
            targets = tokenizers.target.encode([pair.target for pair in full])
            for source, target in zip(sources, targets, strict=True):
                if max(len(source), len(target) + 1) > data.max_length:
                    long += 1
                else:
                    yield source, target
    left.append(f"left out: {empty:,} with an empty side, {long:,} too long")
    if data.hold_out:
        _write_held(held, data, folder)
