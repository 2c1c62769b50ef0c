"""Masked words: what is taken out, by counting; losses by brute force; a run that was cut; blanks that are filled."""

import json
import re
import shutil
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from regard.attention.config import PositionConfig
from regard.data.config import MaskedDataConfig, RunningText, TokenizerConfig
from regard.data.tokenizer import END, MASK, PADDING, START, UNKNOWN, ForeignTokenizer, Tokenizer
from regard.errors import UserError
from regard.exchange.words import library_of
from regard.models.build import build
from regard.models.config import BertConfig
from regard.rng import Key
from regard.tasks import running_text as texts
from regard.tasks.lm.task import Text
from regard.tasks.mlm.task import FIXED, Blanks, Cloze, MaskedModelling, guess_blanks
from regard.tasks.registry import read_recipe
from tests.training.toy import regard

WORDS = [f"w{i}" for i in range(30)]
KEY = Key(3, ("step", 5, 0))


def words(*tags: str) -> Tokenizer:
    return Tokenizer.train(iter([" ".join(WORDS)]), TokenizerConfig(kind="words", vocabulary=60), tags or (MASK,))


def row(length: int, tokenizer: Tokenizer) -> Any:
    """Words at random, with end marks and unknown words among them."""
    draw = np.random.default_rng(0)
    ids = draw.integers(MASK_ID + 1, tokenizer.vocabulary, length).astype(np.uint16)
    ids[draw.random(length) < 0.1] = END
    ids[draw.random(length) < 0.05] = UNKNOWN
    return ids


MASK_ID = 4


def near(count: int, share: float, of: int) -> bool:
    """Within 4 standard deviations of a binomial; keys are fixed, so it holds always or never."""
    return abs(count - share * of) < 4 * sqrt(of * share * (1 - share))


def original(cloze: Cloze) -> Any:
    """What stood there before words were taken out."""
    tokens = cloze.texts.tokens.clone()
    tokens[cloze.chosen] = cloze.wanted
    return tokens.numpy()


def test_the_mask_has_an_id_that_no_text_spells_and_that_is_kept(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="bpe", vocabulary=300)
    tokenizer = Tokenizer.train(iter(["a [MASK] b"]), config, [MASK])
    tokenizer.save(tmp_path / "t.json")
    for each in (tokenizer, Tokenizer.load(tmp_path / "t.json")):
        assert (each.id_of("[MASK]"), each.pieces([4]), each.vocabulary) == (BertConfig().mask, ["[MASK]"], 5 + 256)
        assert min(each.encode(["a [MASK] b"])[0]) > 4
        assert each.decode([*each.encode(["a [MASK]"])[0], 4]) == "a [MASK]"
        theirs = library_of(each, whole=True, start=START).encode(" a [MASK] b").ids
        assert theirs == [START, *each.encode(["a"])[0], MASK_ID, *each.encode(["b"])[0], END]


def test_15_percent_are_taken_out_80_10_10() -> None:
    tokenizer = words()
    ids, blanks = row(200_000, tokenizer), Blanks(tokenizer, context=39)
    starts = np.arange(0, len(ids) - 37, 37)
    cloze = blanks.take_out(ids, starts, KEY)
    before, after, chosen = original(cloze), cloze.texts.tokens.numpy(), cloze.chosen.numpy()
    assert before[:, 1:-1].flatten().tolist() == ids[: len(starts) * 37].tolist()
    assert (before[:, 0] == START).all()
    assert (before[:, -1] == END).all()
    assert (before[~chosen] == after[~chosen]).all()
    controls = [PADDING, START, END, UNKNOWN, MASK_ID]
    assert not np.isin(before[chosen], controls).any()
    num_words, count = int((~np.isin(before, controls)).sum()), int(chosen.sum())
    assert near(count, 0.15, num_words)
    given, wanted = after[chosen], before[chosen]
    assert near(int((given == MASK_ID).sum()), 0.8, count)
    swapped = given[(given != MASK_ID) & (given != wanted)]
    assert near(len(swapped), 0.1 * 29 / 30, count)  # of 30 words, one is the same by chance
    assert set(swapped) == set(range(5, 35))
    assert near(int((Blanks(tokenizer, context=39, share=0.4).take_out(ids, starts, KEY).chosen).sum()), 0.4, num_words)


def test_what_is_taken_out_depends_on_key_and_place_alone() -> None:
    tokenizer = words()
    ids, blanks = row(3000, tokenizer), Blanks(tokenizer, context=23, pairs=True)
    starts = np.arange(0, 2900, 20)
    one, again, other = (blanks.take_out(ids, starts, key) for key in (KEY, KEY, replace(KEY, path=("step", 6, 0))))
    assert torch.equal(one.texts.tokens, again.texts.tokens)
    assert torch.equal(one.chosen, again.chosen)
    assert not torch.equal(one.chosen, other.chosen)
    assert not torch.equal(one.other, other.other)
    alone = blanks.take_out(ids, starts[70:73], KEY)
    assert torch.equal(alone.texts.tokens, one.texts.tokens[70:73])
    assert torch.equal(alone.chosen, one.chosen[70:73])


def test_whole_words_are_whole() -> None:
    lines = ["überzeugt unbelievable tokens, reproducibility", "misunderstandings of encyclopaedias"] * 3
    tokenizer = Tokenizer.train(iter(lines), TokenizerConfig(vocabulary=300), [MASK])
    ids = np.array([i for n in range(300) for i in [*tokenizer.encode([lines[n % 2]])[0], END]])
    starts = np.arange(0, len(ids), 30)
    torn = 0
    for whole in (True, False):
        cloze = Blanks(tokenizer, context=32, whole_words=whole).take_out(ids, starts, KEY)
        for tokens, chosen in zip(original(cloze), cloze.chosen.numpy(), strict=True):
            group = np.array(tokenizer.words(tokens.tolist()))
            for word in set(group[tokens > MASK_ID]):
                taken = chosen[(group == word) & (tokens > MASK_ID)]
                torn += not whole and taken.any() != taken.all()
                assert not whole or taken.any() == taken.all()
    assert torn > 100
    num_words = (ids == END).sum() * 3.5
    assert abs(float(cloze.chosen.sum()) / (ids > MASK_ID).sum() - 0.15) < 4 * sqrt(0.15 * 0.85 / num_words)


def test_half_of_the_second_parts_follow() -> None:
    tokenizer = words()
    ids = np.arange(5, 20_005) % 30 + 5  # a word tells its place, but for multiples of 30
    blanks = Blanks(tokenizer, context=53, pairs=True)
    starts = np.arange(0, len(ids) - 50, 7)
    cloze = blanks.take_out(ids, starts, KEY)
    assert near(int(cloze.other.sum()), 0.5, len(starts))
    assert cloze.texts.segments is not None
    cuts, by_chance = set(), 0
    for start, tokens, parts, other in zip(
        starts, original(cloze), cloze.texts.segments.numpy(), cloze.other, strict=True
    ):
        first, second, after = np.split(tokens, np.flatnonzero(tokens == END) + 1)
        assert (len(after), first[0], parts.tolist()) == (0, START, [0] * len(first) + [1] * len(second))
        cut = len(first) - 2
        cuts.add(cut)
        assert first[1:-1].tolist() == ids[start : start + cut].tolist()
        follows = second[:-1].tolist() == ids[start + cut : start + 50].tolist()
        assert follows or other
        by_chance += bool(follows and other)
    assert (min(cuts), max(cuts)) == (12, 37)  # the middle half of 50
    assert near(by_chance, 1 / 30, int(cloze.other.sum()))


@pytest.mark.parametrize("pairs", [False, True])
def test_the_end_of_a_text_is_as_long_as_it_is(pairs: bool) -> None:
    tokenizer = words()
    ids = np.arange(5, 35)
    cloze = Blanks(tokenizer, context=13 if pairs else 12, pairs=pairs, share=0.99).take_out(
        ids, np.array([4, 23]), FIXED
    )
    marks = 3 if pairs else 2
    assert cloze.texts.lengths.tolist() == [10 + marks, 7 + marks]
    before = original(cloze)[1].tolist()
    assert before[7 + marks :] == [PADDING] * 3
    assert (before[0], before[6 + marks], before.count(END)) == (START, END, marks - 1)
    assert not cloze.chosen[1, 6 + marks :].any()
    if not pairs:
        assert before[1:8] == ids[23:].tolist()


def small(vocabulary: int, **settings: Any) -> Any:
    shape = BertConfig(
        width=8, hidden=12, num_heads=2, num_layers=1, position=PositionConfig(kind="learned", max_length=12)
    )
    return build(replace(shape, **settings).sized(vocabulary)).double()


@pytest.mark.parametrize("pairs", [False, True])
def test_losses_and_metrics_by_brute_force(pairs: bool) -> None:
    tokenizer = words()
    model, ids = small(tokenizer.vocabulary, next_sentence=pairs), row(97, tokenizer)
    blanks = Blanks(tokenizer, context=12, share=0.3, pairs=pairs)
    task = MaskedModelling(blanks, ids, Text(np.array([END, *ids]), 1, 1), batch_tokens=60)
    assert build(BertConfig(width=8, hidden=8, num_heads=2).sized(*task.sizes)).mask == MASK_ID
    starts = task.batches(0, 0)[0]
    assert len(starts) == task.rows == 5
    found = task.loss(model, task.load(starts), None, None)
    lost, right, follows, told, count = _by_hand(model, blanks, ids, starts)
    assert found.weight == count
    assert float(found.total.detach()) == pytest.approx(lost + count * follows / len(starts), rel=1e-9)
    one, again, other = (float(task.loss(model, starts, None, Key(0, ("step", n))).total.detach()) for n in (1, 1, 2))
    assert one == again != other
    everywhere = np.arange(0, 97, blanks.window)
    lost, right, _, told, count = _by_hand(model, blanks, ids, everywhere)
    wanted = {
        "loss": lost / count,
        "accuracy": right / count,
        **({"next_accuracy": told / len(everywhere)} if pairs else {}),
    }
    assert task.evaluate(model, None) == pytest.approx(wanted, rel=1e-9)  # type: ignore[arg-type]
    assert guess_blanks(model, blanks, ids, rows=2) == pytest.approx(wanted, rel=1e-9)


@torch.no_grad()
def _by_hand(model: Any, blanks: Blanks, ids: Any, starts: Any) -> tuple[float, int, float, int, int]:
    """Text after text, word after word: nats, words guessed, nats of next parts, next parts told, words."""
    lost, right, follows, told, count = 0.0, 0, 0.0, 0, 0
    for start in starts:
        cloze = blanks.take_out(ids, np.array([start]), FIXED)
        x = model(cloze.texts)[0]
        for at in cloze.chosen[0].nonzero()[:, 0].tolist():
            log_probs, word = model.guess(x[at]).log_softmax(-1), int(original(cloze)[0, at])
            lost, right, count = lost - float(log_probs[word]), right + (int(log_probs.argmax()) == word), count + 1
        if blanks.pairs:
            log_probs = model.follows(torch.tanh(model.pooler(x[0]))).log_softmax(-1)
            follows -= float(log_probs[cloze.other[0]])
            told += int(log_probs.argmax() == cloze.other[0])
    return lost, right, follows, told, count


def test_every_parameter_learns_and_a_batch_of_marks_alone_teaches_nothing() -> None:
    tokenizer = words()
    model = small(tokenizer.vocabulary, next_sentence=True)
    task = MaskedModelling(Blanks(tokenizer, context=12, pairs=True), row(300, tokenizer), None, batch_tokens=120)
    task.loss(model, task.largest(), None, KEY).total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert (task.primary, task.evaluate(model, None)) == (("train_loss", "lower"), {})  # type: ignore[arg-type]
    empty = MaskedModelling(Blanks(tokenizer, context=12), np.full(300, END), None, batch_tokens=120)
    nothing = empty.loss(small(tokenizer.vocabulary), empty.largest(), None, KEY)
    nothing.total.backward()
    assert (float(nothing.total.detach()), nothing.weight) == (0.0, 1.0)
    with pytest.raises(UserError, match="word.* 300 tokens"):
        guess_blanks(small(tokenizer.vocabulary), empty.blanks, empty.ids, 4)


def test_another_s_tokenizer_has_marks_of_its_own() -> None:
    vocabulary = ["[PAD]", "[unused]", "cat", "##s", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "dog"]
    library = Library(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    controls = {i: word for i, word in enumerate(vocabulary) if word.startswith("[")}
    tokenizer = ForeignTokenizer(json.loads(library.to_str()), controls, 12)
    blanks = Blanks(tokenizer, context=9, whole_words=True)
    assert (blanks.start, blanks.end, blanks.mask, blanks.words.tolist()) == (6, 5, 4, [2, 3, 8])
    ids = texts.text_of(tokenizer, [("cats dog cats", True)]).ids
    assert ids.tolist() == [5, 2, 3, 8, 2, 3, 5]
    cloze = blanks.take_out(np.tile(ids, 200), np.arange(0, 1400, 7), KEY)
    assert (original(cloze)[:, 1:-1] == ids).all()
    assert torch.equal(cloze.chosen[:, 2], cloze.chosen[:, 3])  # cat and ##s
    assert not torch.equal(cloze.chosen[:, 3], cloze.chosen[:, 4])
    with pytest.raises(UserError, match=r"\[MASK\]"):
        Blanks(words("de"), context=9)


ANIMALS = {"dog": "barks", "cat": "purrs", "cow": "moos", "pig": "grunts", "owl": "hoots"}


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """Who says what, in any order."""
    draw, names = np.random.default_rng(1), list(ANIMALS)
    told = [names[i] for i in draw.integers(0, 5, 400)]
    path = tmp_path / "story.txt"
    path.write_text("".join(f"the {name} {ANIMALS[name]} . " for name in told), "utf-8")
    return path


def recipe(story: Path, steps: int, model: dict[str, Any], **data: Any) -> Path:
    path = story.parent / "recipe.yaml"
    tokenizer = {"kind": "words", "vocabulary": 30}
    data = {"hold_out": 0.1, "context": 16, "tokenizer": tokenizer, **data}
    content = {
        "task": "mlm",
        "data": {"train": [{"file": str(story)}], **data},
        "model": {"width": 16, "hidden": 24, "num_heads": 2, "num_layers": 1, **model},
        "train": {"steps": steps, "batch_tokens": 256, "evaluations": 3, "checkpoints": 6, "lr": 0.01},
    }
    path.write_text(json.dumps(content), "utf-8")
    return path


def test_a_run_that_was_cut_ends_with_the_same_bits(story: Path) -> None:
    path = recipe(story, 60, {"next_sentence": True, "dropout": 0.1}, whole_words=True)
    whole, cut = story.parent / "whole", story.parent / "cut"
    told = regard("train", path, "--out", whole, "--threads", "1").stderr.decode()
    assert re.search(" 16 texts.* 16 ", told)
    assert "next_accuracy" in told
    shutil.copytree(whole, cut)
    for file in (cut / "checkpoints" / "step-60").iterdir():  # as if it had never been written
        file.unlink()
    (cut / "checkpoints" / "step-60").rmdir()
    assert "step 50" in regard("train", path, "--out", cut, "--threads", "1").stderr.decode()
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (whole / "checkpoints/step-60" / name).read_bytes() == (cut / "checkpoints/step-60" / name).read_bytes()


@pytest.mark.full
def test_a_model_that_was_trained_fills_blanks(story: Path) -> None:
    out = story.parent / "run"
    path = recipe(story, 600, {"width": 32, "hidden": 32, "num_layers": 2})
    regard("train", path, "--out", out, "--threads", "1")
    around = "the owl hoots . the {} {} . the cow moos .\n"
    lines = [around.format(MASK, says) for says in ANIMALS.values()] + [around.format(name, MASK) for name in ANIMALS]
    filled = regard("run", out, stdin="".join(lines).encode()).stdout.decode().splitlines(keepends=True)
    wanted = [around.format(*both) for both in ANIMALS.items()] * 2
    assert [line.split("\t")[0] + "\n" for line in filled] == wanted
    text = story.read_text("utf-8")
    held = story.parent / "held.txt"
    held.write_text(text[int(len(text) * 0.9) :], "utf-8")
    found = json.loads(regard("evaluate", out, "--text", held, "--json").stdout)
    kept = json.loads((out / "config.json").read_text("utf-8"))["metrics"]
    assert found == pytest.approx({"tokens": found["tokens"], "loss": kept["loss"], "accuracy": kept["accuracy"]}, 1e-5)
    assert "bert" in (out / "README.md").read_text("utf-8")


def test_settings_that_contradict_each_other(story: Path) -> None:
    with pytest.raises(UserError, match="separate_documents .*context"):
        MaskedDataConfig(train=(RunningText(file="a"),), separate_documents=True)
    path = recipe(story, 9, {})
    for settings, told in [
        (["model.position.kind=learned", "model.position.max_length=9"], "context 16 .* 9 "),
        (["data.mask_rate=1.0"], r"mask_rate 1 .*0\.15"),
        (["data.context=4"], "context 4 .* 5 "),
    ]:
        with pytest.raises(UserError, match=told):
            read_recipe(path, settings)
    told = regard("check", path).stdout.decode()
    assert all(re.search(words, told) for words in ("problems", r"unknown.* 0\.\d", r"memory.* \d+\.\d GiB"))
