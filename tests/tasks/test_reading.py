"""Reading: losses written out by hand, answers against brute force, in any company and order."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.examples import Example
from regard.errors import UserError
from regard.models.build import build
from regard.rng import Key
from regard.tasks.labelled.layout import Batch, Layout
from regard.tasks.labelled.question import metrics_of
from regard.tasks.labelled.questions import best_span
from regard.tasks.labelled.task import Reading, answers
from tests.tasks.toys import (
    DOCUMENT,
    EXAMPLES,
    READERS,
    layout,
    made,
    question_of,
    reading,
    shaped,
    training,
    without_dropout,
    words,
)

QUESTIONS = list(EXAMPLES)


def plain(name: str, question: str, **settings: Any) -> Any:
    """A reader without dropout, so that a key changes smoothing alone; in float64."""
    return build(without_dropout(shaped(name, question, **settings)), seed=3).double()


@torch.no_grad()
def logits_of(model: Any, unit: Any) -> torch.Tensor:
    """Of each row, one at a time."""
    read = [Batch.of([[row]]) for row in unit]
    return torch.cat([model(each.items) for each in read])


def nats(logits: torch.Tensor, wanted: int, smoothing: float = 0.0) -> float:
    """-(1 - s) log p(wanted) - s / V sum log p."""
    log_probs = logits.double() - math.log(sum(math.exp(x) for x in logits.tolist()))
    return -float((1 - smoothing) * log_probs[wanted] + smoothing * log_probs.mean())


def by_hand(model: Any, task: Reading, question: str, smoothing: float) -> tuple[float, float]:
    """Example after example; what is wanted comes from the examples themselves."""
    total = weight = 0.0
    config = model.config
    for unit in task.units:
        example, row = EXAMPLES[question][unit[0].item], unit[0]
        logits = logits_of(model, unit)
        if question in ("classification", "pairs"):
            total, weight = total + nats(logits[0], config.labels.index(example.answer), smoothing), weight + 1
        elif question == "regression":
            said = float(logits[0, 0]) * config.spread + config.center
            total, weight = total + ((said - example.answer) / config.spread) ** 2, weight + 1
        elif question == "choice":
            total, weight = total + nats(logits[:, 0], example.answer), weight + 1
        elif question == "tagging":
            for spot, wanted in zip(row.spots, row.wanted, strict=True):
                total, weight = total + nats(logits[0, int(spot)], wanted, smoothing), weight + 1
        else:
            inner = logits[0, row.second : row.second + len(row.spots)]
            start, end = (i - row.second for i in row.wanted)
            total, weight = total + (nats(inner[:, 0], start) + nats(inner[:, 1], end)) / 2, weight + 1
    return total, weight


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["bert", "gpt", "elmo"])
def test_losses_by_hand(name: str, question: str, smoothing: float) -> None:
    model = plain(name, question)
    task = reading(model.config, question, label_smoothing=smoothing)
    batch = task.load(np.arange(len(task.units)))
    taught, judged = (task.loss(model, batch, None, key) for key in (Key(0), None))
    for found, share in ((taught, smoothing), (judged, 0.0)):
        total, weight = by_hand(model, task, question, share)
        assert float(found.total.detach()) == pytest.approx(total, rel=1e-9)
        assert found.weight == weight


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_both_orders_of_a_pair_are_one_answer(name: str) -> None:
    model = plain(name, "pairs", symmetric=True)
    task = reading(model.config, "pairs", label_smoothing=0.1)
    total = 0.0
    for unit, example in zip(task.units, EXAMPLES["pairs"], strict=True):
        read = [Batch.of([[row]]) for row in unit]
        x = sum(model.see(each.items).summary for each in read)
        total += nats(model.head(x)[0].detach(), model.config.labels.index(example.answer), 0.1)
    found = task.loss(model, task.load(np.arange(5)), None, Key(0))
    assert (float(found.total.detach()), found.weight) == (pytest.approx(total, rel=1e-9), 5)


@pytest.mark.parametrize("question", ["pairs", "choice", "tagging", "spans"])
@pytest.mark.parametrize("name", ["gpt", "gpt-untied", "recurrent_text"])
def test_a_language_models_loss_is_added_by_its_share(name: str, question: str) -> None:
    """L2 + 0.5 L1 [Radford+ 2018, eq. 5], L1 being the mean over all tokens but the first of each row."""
    model = plain(name, question)
    alone, both = reading(model.config, question), reading(model.config, question, lm_loss_weight=0.5)
    lost, count = 0.0, 0
    for row in (row for unit in both.units for row in unit):
        told = model.trunk(torch.tensor([row.ids]))[0].detach()
        for at, wanted in enumerate(row.ids[1:]):
            lost, count = lost + nats(told[at], wanted), count + 1
    batch = both.load(np.arange(len(both.units)))
    without, with_it = alone.loss(model, batch, None, None), both.loss(model, batch, None, None)
    assert with_it.weight == without.weight
    added = float((with_it.total - without.total).detach())
    assert added == pytest.approx(0.5 * without.weight * lost / count, rel=1e-9)


@pytest.mark.parametrize("question", QUESTIONS)
def test_losses_of_batches_sum_to_that_of_all(question: str) -> None:
    model = plain("bert", question)
    task = reading(model.config, question, batch_tokens=40)
    together = task.loss(model, task.load(np.arange(len(task.units))), None, None)
    for epoch in range(3):
        names = task.batches(0, epoch)
        assert sorted(i for name in names for i in name.tolist()) == list(range(len(task.units)))
        parts = [task.loss(model, task.load(name), None, None) for name in names]
        assert len(parts) > 1
        assert sum(float(p.total.detach()) for p in parts) == pytest.approx(float(together.total.detach()), rel=1e-9)
        assert sum(p.weight for p in parts) == together.weight


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", READERS)
def test_answers_are_the_same_in_any_company_and_order(name: str, question: str) -> None:
    model = made(name, question).double()
    some = EXAMPLES[question] * 2
    whole = answers(model, layout(model.config), some, tokens=100_000)
    ticks: list[int] = []
    for tokens, order in ((1, range(len(some))), (60, range(len(some) - 1, -1, -1))):
        shuffled = answers(model, layout(model.config), [some[i] for i in order], tokens, ticks.append)
        for i, found in zip(order, shuffled, strict=True):
            assert found.said == (pytest.approx(whole[i].said) if question == "regression" else whole[i].said)
            assert found.place == whole[i].place
            assert (found.probability is None) == (question == "regression")
            if found.probability is not None:
                assert found.probability == pytest.approx(whole[i].probability, abs=1e-9)
            assert [label for label, _ in found.others] == [label for label, _ in whole[i].others]
    assert ticks[-1] == len(some)
    assert max(ticks) == len(some)
    unlabelled = [example._replace(answer=None) for example in some]
    assert answers(model, layout(model.config), unlabelled, tokens=100_000) == whole


def test_probabilities_are_whole_and_the_best_is_first() -> None:
    for question in ("classification", "pairs", "choice", "tagging"):
        model = made("bert", question)
        for example, answer in zip(
            EXAMPLES[question], answers(model, layout(model.config), EXAMPLES[question]), strict=True
        ):
            if question == "tagging":
                assert len(answer.said) == len(answer.probability) == len(example.texts)
                assert all(1 / 7 < p <= 1 for p in answer.probability)
                continue
            names = model.config.labels if question != "choice" else example.texts[1:]
            assert sorted(label for label, _ in answer.others) == sorted(names)
            chances = [p for _, p in answer.others]
            assert sum(chances) == pytest.approx(1.0, abs=1e-6)
            assert chances == sorted(chances, reverse=True)
            best = example.texts[1 + answer.said] if question == "choice" else answer.said
            assert answer.others[0] == (best, answer.probability)


def test_numbers_come_back_as_they_were_given() -> None:
    model = plain("bert", "regression")
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    numbers = [example.answer for example in EXAMPLES["regression"]]
    for answer in answers(model, layout(model.config), EXAMPLES["regression"]):
        assert (answer.said, answer.probability, answer.others) == (pytest.approx(sum(numbers) / 4), None, ())
    assert model.config.spread == pytest.approx(float(np.std(numbers)))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_span_is_that_of_brute_force(seed: int) -> None:
    """Over all pairs of all windows, with at most 30 tokens; probabilities are over the tokens of all windows."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(0, 70, int(draw.integers(1, 5)))
    document = "".join(chr(97 + i % 26) for i in range(400))
    windows = []
    for number, size in enumerate(sizes):
        starts = number * 90 + np.arange(size)
        windows.append((draw.normal(size=(size, 2)) * 3, np.stack((starts, starts + 1), 1)))
    found = best_span(document, windows)
    every = np.concatenate([x for x, _ in windows])
    if not len(every):
        assert (found.said, found.place) == ("", (0, 0))
        return
    log_probs = [x - np.log(np.exp(every).sum(0)) for x, _ in windows]
    best = max(
        (x[i, 0] + x[j, 1], int(places[i, 0]), int(places[j, 1]))
        for x, (_, places) in zip(log_probs, windows, strict=True)
        for i in range(len(x))
        for j in range(i, min(len(x), i + 30))
    )
    assert found.place == best[1:]
    assert found.said == document[slice(*best[1:])]
    assert found.probability == pytest.approx(math.exp(best[0]), rel=1e-9)


def test_an_answer_has_30_tokens_at_most() -> None:
    for last, wanted in ((29, (0, 30)), (30, (1, 31))):
        x = np.zeros((40, 2))
        x[[0, 1], 0], x[last, 1] = (9.0, 5.0), 9.0
        found = best_span("x" * 40, [(x, np.stack((np.arange(40), np.arange(40) + 1), 1))])
        assert found.place == wanted


def test_answers_in_a_document_are_the_best_of_its_windows() -> None:
    model = plain("bert", "spans")
    cut = Layout(words(), model.config, 20)
    example = Example((DOCUMENT * 3, "who sat?"), None, 1)
    (found,) = answers(model, cut, [example])
    units = list(cut.units([example]))
    assert len(units) > 5
    told = [(logits_of(model, unit)[0, unit[0].second : -1].numpy(), unit[0].spots) for unit in units]
    assert all(len(x) == len(places) for x, places in told)
    best = best_span(DOCUMENT * 3, told)
    assert (found.said, found.place) == (best.said, best.place)
    assert found.probability == pytest.approx(best.probability, rel=1e-6)
    assert DOCUMENT * 3 != found.said == (DOCUMENT * 3)[slice(*found.place or ())]


def test_labels_that_were_not_learned_count_as_wrong() -> None:
    for question in ("pairs", "tagging"):
        model = made("bert", question)
        odd = [
            example._replace(answer="new" if question == "pairs" else ("new",) * len(example.texts))
            for example in EXAMPLES[question]
        ]
        task = Reading(layout(model.config), EXAMPLES[question], odd, training(batch_tokens=100))
        scores = task.evaluate(model, None)  # type: ignore[arg-type]
        assert scores.keys() == set(metrics_of(question_of(question)))
        assert scores[task.metric] == 0.0
        assert task.rehearse(model, None) > 0  # type: ignore[arg-type]


@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_are_those_of_the_answers(question: str) -> None:
    model = made("gpt", question)
    task = reading(model.config, question)
    said = [answer.said for answer in answers(model, task.layout, EXAMPLES[question])]
    right = [
        example._replace(answer=((0, a),) if question == "spans" else a)
        for example, a in zip(EXAMPLES[question], said, strict=True)
    ]
    metric = "exact_match" if question == "spans" else task.metric
    assert task.scores(model, right)[metric] == pytest.approx(1.0 if question == "regression" else 100.0)
    assert all(task.question.wanted(example) is not None for example in right)


def test_a_task_tells_what_it_is_judged_by() -> None:
    config = shaped("bert", "pairs")
    assert reading(config, "pairs").primary == ("accuracy", "higher")
    assert reading(config, "pairs", metric="matthews").primary == ("matthews", "higher")
    alone = Reading(layout(config), EXAMPLES["pairs"], [], training(batch_tokens=100))
    assert (alone.primary, alone.evaluate(None, None)) == (("train_loss", "lower"), {})  # type: ignore[arg-type]
    assert alone.rehearse(build(config), None) == 0.0  # type: ignore[arg-type]
    with pytest.raises(UserError, match="'bleu'.*classification.*accuracy, f1, matthews"):
        reading(config, "pairs", metric="bleu")
    with pytest.raises(UserError, match=r"example.*data\.train"):
        Reading(layout(shaped("bert", "spans")), [Example(("", "who?"), (), 1)], [], training(batch_tokens=100))


def test_batches_hold_as_many_tokens_as_they_may_and_the_largest_is_known() -> None:
    for question in QUESTIONS:
        config = shaped("bert", question)
        task = reading(config, question, batch_tokens=50)
        names = task.batches(0, 0)
        for name in names:
            rows, _, longest, _, tokens = task.shape(name)
            assert rows == len(task.load(name).rows)
            assert tokens <= rows * longest
            assert rows * longest <= 50 or len(name) == 1
            assert task.describe(name).startswith("examples ")
        largest, *others = (task.shape(name) for name in (task.largest(), *names))
        most = max(shape.rows * shape.target for shape in others)
        assert largest.rows * largest.target >= 0.75 * most  # which is cut otherwise, the longest first
        assert task.batches(0, 0)[0].tolist() == names[0].tolist()
