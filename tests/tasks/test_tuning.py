"""Models that begin with others' weights: what they keep, how new words begin, and that they learn and resume."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.data.config import TokenizerConfig
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import (
    BertConfig,
    ElmoConfig,
    GptConfig,
    ReaderConfig,
    RecurrentConfig,
    RecurrentTextConfig,
    TransformerConfig,
)
from regard.models.presets import transformer_tiny
from regard.nn.lora import hold
from regard.rng import Key
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from regard.tasks.labelled.config import ReadTrainConfig
from regard.tasks.labelled.layout import MARKS, Layout
from regard.tasks.labelled.start import reader_for, settle_reader, trunk_of
from regard.tasks.labelled.task import Reading, answers
from regard.tasks.warmstart import origins, take_weights
from regard.training.loop import Trainer
from regard.training.plan import Plan
from tests.tasks.toys import EXAMPLES, ROTARY, made, reading, shaped, words

NEW = ("zorblax", "quux-9")
SHAPE: dict[str, Any] = {"width": 8, "hidden": 12, "num_heads": 2, "num_layers": 1}
BASES: dict[str, Any] = {
    "bert": BertConfig(**SHAPE),
    "bert-pooled": BertConfig(**SHAPE, next_sentence=True),
    "gpt": GptConfig(**SHAPE),
    "gpt-untied": GptConfig(**SHAPE, tied=False),
    "recurrent": RecurrentTextConfig(embedding=6, width=8),
    "recurrent-untied": RecurrentTextConfig(embedding=6, width=8, tied=False),
    "elmo": ElmoConfig(embedding=6, width=8),
}


def base(name: str) -> Any:
    """A model of text, with biases that say something."""
    model = build(BASES[name].sized(words().vocabulary), seed=5)
    for path, p in model.named_parameters():
        if path.endswith("bias"):
            p.data.normal_(0.0, 1.0, generator=torch.Generator().manual_seed(len(path)))
    return model


def tuned(given: Any, spoken: Tokenizer, before: Tokenizer, question: Any = "pairs", **settings: Any) -> Any:
    """A reader that begins with a model, as `regard train` makes it."""
    asked = "classification" if question == "pairs" else question
    config = reader_for(ReaderConfig(**settings), asked, spoken, given.config, EXAMPLES[question])
    model = build(config)
    marks = len(dict(model.trunk.named_parameters())["embedding.table"]) - spoken.vocabulary
    fresh = marks > 0 and not hasattr(given, "trunk")
    take_weights(model, given, "there", target=origins(spoken, before, fresh))
    return model


@pytest.mark.parametrize("name", BASES)
@torch.no_grad()
def test_new_words_begin_as_the_mean_of_their_pieces_and_marks_near_the_mean(name: str) -> None:
    given, before = base(name), words()
    model, size = tuned(given, before.extended(NEW), before), before.vocabulary
    pieces = before.encode(NEW)
    assert all(len(row) > 1 for row in pieces)
    decodes = not name.startswith(("bert", "elmo"))
    theirs = dict(given.named_parameters())
    grown = 0
    for path, mine in model.trunk.named_parameters():
        if path.startswith("pooler.") and name == "bert":
            continue
        old = theirs[path]
        if mine.shape == old.shape:
            assert torch.equal(mine, old), path
            continue
        grown += 1
        assert len(mine) == size + len(NEW) + (MARKS if decodes else 0)
        assert torch.equal(mine[:size], old)
        for i, row in enumerate(pieces):
            assert torch.allclose(mine[size + i], torch.stack([old[j] for j in row]).mean(0), atol=1e-6)
        marks = mine[size + len(NEW) :]
        away = (marks - old.mean(0)) / old.std(0)
        assert (away.abs() < 0.5).all()
        assert len({tuple(row.flatten().tolist()) for row in marks}) == len(marks), "three marks, and all different"
    tied = {"gpt": 1, "gpt-untied": 2, "recurrent": 2, "recurrent-untied": 3, "elmo": 2}  # tables, and heads' biases
    assert grown == tied.get(name, 1)


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@torch.no_grad()
def test_translators_get_words_on_both_sides(tied: Any) -> None:
    other = words() if tied == "all" else Tokenizer.train(iter(["eine Katze saß"] * 2), TokenizerConfig(vocabulary=300))
    before = Tokenizers(words(), other)
    after = before.extended(NEW)
    assert (after.source is after.target) == (tied == "all")
    shape = TransformerConfig(width=8, hidden=12, num_heads=2, encoder_layers=1, decoder_layers=1, output_bias=True)
    given, model = (build(replace(shape, tied=tied).sized(*both.sizes), seed=len(NEW)) for both in (before, after))
    given.head.bias.normal_()
    sides = zip((after.source, after.target), (before.source, before.target), strict=True)
    take_weights(model, given, "there", *(origins(new, old, False) for new, old in sides))
    tables = {"source_embedding.table": words()} | dict.fromkeys(
        ("target_embedding.table", "head.table", "head.bias"), other
    )
    for path, tokenizer in tables.items():
        mine, old = model.state_dict()[path], given.state_dict()[path]
        assert torch.equal(mine[: tokenizer.vocabulary], old)
        for i, row in enumerate(tokenizer.encode(NEW)):
            assert torch.allclose(mine[tokenizer.vocabulary + i], old[row].mean(0), atol=1e-6)


def test_nothing_grows_without_new_words_or_marks() -> None:
    given = base("bert-pooled")
    model = tuned(given, words(), words())
    for path, mine in model.trunk.named_parameters():
        assert torch.equal(mine, given.get_parameter(path)), path
    assert "pooler.weight" in dict(model.trunk.named_parameters())
    assert model.trunk.guess is model.trunk.follows is None


@pytest.mark.parametrize("more", [(), NEW], ids=["same words", "new words"])
@pytest.mark.parametrize("name", ["bert", "gpt-untied", "recurrent", "elmo"])
@torch.no_grad()
def test_a_reader_may_begin_with_a_reader_of_other_labels(name: str, more: tuple[str, ...]) -> None:
    """As RTE with MNLI's; a decoder's marks stay what they are, and come after new words."""
    first = tuned(base(name), words(), words())
    spoken = words().extended(more)
    second = tuned(first, spoken, words(), question="classification")
    assert second.config.labels == ("a", "b", "c")
    table, old = second.trunk.embedding.table, first.trunk.embedding.table
    size = words().vocabulary
    assert torch.equal(table[:size], old[:size])
    assert torch.equal(table[size + len(more) :], old[size:])
    for i, row in enumerate(words().encode(more)):
        assert torch.allclose(table[size + i], old[row].mean(0), atol=1e-6)
    for path, p in first.trunk.named_parameters():
        if p.shape == second.trunk.get_parameter(path).shape:
            assert torch.equal(p, second.trunk.get_parameter(path)), path
    texts = [Example(("the cat sat",), None, 1)]
    seen = []
    for model, tokenizer in ((first, words()), (second, spoken)):
        (unit,) = Layout(tokenizer, replace(model.config, pairs=False), 20).units(texts)
        seen.append(unit[0].ids)
    vectors = [
        model.trunk.embedding.embed(torch.tensor([row])) for model, row in zip((first, second), seen, strict=True)
    ]
    assert torch.equal(*vectors), "what is read is the same, whatever its numbers"


def test_other_shapes_are_refused_by_name() -> None:
    given = build(replace(BASES["bert"], hidden=16).sized(words().vocabulary))
    model = build(shaped("bert", "pairs"))
    told = r"over there.*encoder\.blocks\.0\.feedforward\..*model.*recipe\.yaml"
    with pytest.raises(UserError, match=told):
        take_weights(model, given, "over there")
    gpt = build(BASES["gpt"].sized(words().vocabulary))
    longer = build(BASES["gpt"].sized(words().vocabulary + 2))
    with pytest.raises(UserError, match=r"there.*embedding\.table"):
        take_weights(longer, gpt, "there", target=[[7]])
    with pytest.raises(UserError, match=r"there.*embedding\.table"):
        take_weights(gpt, longer, "there")
    take_weights(longer, gpt, "there", target=[[7], [8, 9]])
    assert torch.equal(longer.embedding.table[-2], gpt.embedding.table[7])


def test_a_translator_is_no_reader() -> None:
    for config in (transformer_tiny(), RecurrentConfig()):
        with pytest.raises(UserError, match=f"{config.kind} .*encoder"):
            trunk_of(config)
    assert trunk_of(ReaderConfig(trunk=BASES["gpt"])) == trunk_of(BASES["gpt"]) == BASES["gpt"]


@torch.no_grad()
def test_weights_without_an_axis_are_kept_too() -> None:
    class Toy(nn.Module):
        def __init__(self, x: float) -> None:
            super().__init__()
            self.table, self.sharpness = nn.Parameter(torch.full((3, 2), x)), nn.Parameter(torch.tensor(x))

    model = Toy(0.0)
    take_weights(model, Toy(2.0), "there")
    assert (float(model.sharpness), model.table.tolist()) == (2.0, [[2.0, 2.0]] * 3)


def test_what_labels_there_are_is_told_by_the_examples() -> None:
    config = shaped("bert", "pairs")
    assert (config.labels, config.pairs, config.outputs) == (("a", "b", "c"), True, 3)
    config = shaped("gpt", "tagging")
    assert (config.labels, config.pairs) == (tuple("ADNPTV"), False)
    assert [shaped("gpt", question).outputs for question in ("regression", "choice", "spans")] == [1, 1, 2]
    for labels in (["x"] * 3, [str(i) for i in range(1001)]):
        some = [Example(("a",), label, 1) for label in labels]
        with pytest.raises(UserError, match=f"{len(set(labels))} .* 2 .*1000 .*task: regression"):
            reader_for(ReaderConfig(), "classification", words(), None, some)
    same = [Example(("a",), 2.5, 1)] * 3
    config = reader_for(ReaderConfig(), "regression", words(), None, same)
    assert (config.center, config.spread) == (2.5, 1.0)


def trainer(folder: Path, task: Any, make: Callable[[], Any], steps: int, keep: Any = None, **settings: Any) -> Trainer:
    config = ReadTrainConfig(**{"steps": steps, "lr": 0.01, "checkpoints": 4, "evaluations": 2, **settings})
    kept = keep or (lambda model, metrics: None)
    return Trainer(task, make(), config, folder, engine=lambda model: None, keep_best=kept)  # type: ignore[arg-type,return-value]


def plan(steps: int) -> Plan:
    return Plan(steps=steps, evaluations=2, threads=1, torch="", machine="", parameters=0, flops=(0.0,) * 8)


def weights(trained: Trainer) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in trained.weights.model.named_parameters()}


class _Killed(Exception):  # noqa: N818
    pass


HELD: list[tuple[str, str, dict[str, Any], float]] = [
    ("bert", "pairs", {"rank": 2}, 0.0),
    ("bert", "tagging", {}, 0.0),
    ("bert", "spans", {"frozen": 1}, 0.0),
    ("gpt", "choice", {"rank": 2, "grown": True}, 0.5),
    ("gpt-untied", "classification", {"frozen": 1}, 0.0),
    ("recurrent_text", "regression", {}, 0.0),
    ("elmo", "pairs", {"frozen": 1}, 0.0),
]


@pytest.mark.parametrize(("name", "question", "how", "auxiliary"), HELD, ids=lambda x: x if isinstance(x, str) else "")
def test_killed_and_resumed_it_ends_with_the_same_bits(
    name: str, question: str, how: dict[str, Any], auxiliary: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> Any:
        model = build(shaped(name, question))
        settle_reader(model, auxiliary > 0)
        hold(model.trunk, **how)
        return model

    task = reading(make().config, question, batch_tokens=60, lm_loss_weight=auxiliary)
    whole = trainer(tmp_path / "whole", task, make, 12)
    whole.run(plan(12))
    killed = trainer(tmp_path / "killed", task, make, 12)
    updates, update = 0, killed.update

    def until(*arguments: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates > 8:
            raise _Killed
        return update(*arguments)

    monkeypatch.setattr(killed, "update", until)
    with pytest.raises(_Killed):
        killed.run(plan(12))
    resumed = trainer(tmp_path / "killed", task, make, 12)
    resumed.resume()
    assert resumed.state.step == 6
    resumed.run(plan(12))
    assert weights(whole).keys() == weights(resumed).keys()
    assert all(torch.equal(p, weights(resumed)[n]) for n, p in weights(whole).items())
    last = [tmp_path / which / "checkpoints/step-12/optimizer.safetensors" for which in ("whole", "killed")]
    assert last[0].read_bytes() == last[1].read_bytes()
    begun = dict(make().named_parameters())
    still = {n for n, p in begun.items() if not p.requires_grad}
    assert all(torch.equal(begun[n], p) == (n in still) for n, p in weights(whole).items() if "to_k.bias" not in n)


@pytest.mark.parametrize(("name", "question"), [("bert", "pairs"), ("bert", "tagging"), ("gpt", "choice")])
def test_a_run_of_low_rank_changes_is_kept_as_a_plain_model(name: str, question: str, tmp_path: Path) -> None:
    some, told = EXAMPLES[question], []

    def make() -> Any:
        model = made(name, question)
        hold(model.trunk, rank=2)
        return model

    task = reading(make().config, question)

    def keep(model: Any, metrics: dict[str, float]) -> None:
        told.append(answers(model, task.layout, some))
        save_model(tmp_path, model, model.config.question, Greedy(), 24, metrics)

    save_tokenizers(tmp_path, Tokenizers(words(), words()))
    run = trainer(tmp_path / "run", task, make, 6, keep, lr=0.05)
    before = weights(run)
    run.run(plan(6))
    stored = load_file(tmp_path / "model.safetensors")
    assert stored.keys() == dict(made(name, question).named_parameters()).keys()
    for live, folder in zip(told[-1], answers(load_folder(tmp_path).model, task.layout, some), strict=True):
        assert folder.said == live.said
        assert folder.probability == pytest.approx(live.probability, abs=1e-5)
    moved = {n for n, p in weights(run).items() if not torch.equal(p, before[n])}
    inner = {n for n in before if n.endswith((".first", ".second"))}
    assert inner <= moved
    assert moved <= inner | {n for n in before if n.startswith(("head.", "trunk.pooler."))}
    assert "head.weight" in moved


def learned(question: Any, some: list[Example], trunk: Any, folder: Path, steps: int) -> dict[str, float]:
    """Scores on the last 60 examples, after learning from the others."""
    spoken = Tokenizer.train((t for e in some for t in e.texts), TokenizerConfig(vocabulary=400))
    config = reader_for(ReaderConfig(trunk=trunk, dropout=0.0), question, spoken, None, some)
    task = Reading(Layout(spoken, config, 40), some[:-60], some[-60:], ReadTrainConfig(steps=1, batch_tokens=600))

    def make() -> Any:
        model = build(config)
        settle_reader(model, auxiliary=False)
        return model

    run = trainer(folder, task, make, steps)
    run.run(plan(steps))
    return task.evaluate(run.weights.model, None)  # type: ignore[arg-type]


WIDE: dict[str, Any] = {"width": 32, "hidden": 48, "num_heads": 2, "position": ROTARY}
FILL = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def sentence(i: int, length: int = 7) -> list[str]:
    return [FILL[int(j)] for j in Key(0, ("fill", i)).generator().integers(0, len(FILL), length)]


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_which_of_two_words_a_sentence_holds_is_learned(kind: str, tmp_path: Path) -> None:
    some = []
    for i in range(360):
        text, label = sentence(i), "ab"[i * 7 % 13 % 2]
        text[i % 7] = {"a": "up", "b": "down"}[label]
        some.append(Example((" ".join(text),), label, i))
    trunk = BertConfig(**WIDE, num_layers=1) if kind == "bert" else GptConfig(**WIDE, num_layers=1)
    assert learned("classification", some, trunk, tmp_path, 120)["accuracy"] > 95


def test_the_word_after_three_others_is_found(tmp_path: Path) -> None:
    some = []
    for i in range(460):
        before, after = sentence(i, i % 5), sentence(-i, 4)
        text = " ".join([*before, "the answer is", *after])
        some.append(Example((text, "what?"), ((text.index("is ") + 3, after[0]),), i))
    trunk = BertConfig(**WIDE, num_layers=2)
    assert learned("spans", some, trunk, tmp_path, 240)["exact_match"] > 95
