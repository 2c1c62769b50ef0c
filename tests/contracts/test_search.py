"""Contract 5: a wide beam on a tiny vocabulary finds what brute force finds, with filters too."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decode.beam import breadth_first
from regard.decode.config import Beam, Greedy
from regard.decode.filters import Filter, Forbid, ForcedPrefix, Halt, Listen, MinimumLength, NoRepeat
from regard.decode.search import decode
from regard.decode.stepper import Step
from regard.decode.walk import Job
from regard.shapes import Padded

V, LENGTH, END = 5, 5, 2


class Table:
    """A model that is a table: the next word's probabilities after each pair of words, one table a sentence."""

    start, end = 1, END

    def __init__(self, sentences: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(sentences, V, V, V, generator=draw, dtype=torch.float64)
        self.log_probs = logits.log_softmax(-1)
        self.steps = 0

    def begin(self, batch: Padded, prefix: Padded | None = None) -> "TableState":
        return TableState(batch.tokens[:, 0], torch.zeros(len(batch), dtype=torch.long))

    def step(self, tokens: Tensor, state: "TableState", *, candidates: Tensor | None = None) -> Step["TableState"]:
        self.steps += len(tokens)
        log_probs = self.log_probs[state.sentence, state.last, tokens]
        return Step(log_probs, TableState(state.sentence, tokens))

    def score(self, sentence: int, words: tuple[int, ...]) -> float:
        said = (0, self.start, *words)
        return sum(float(self.log_probs[sentence, a, b, c]) for a, b, c in zip(said, said[1:], said[2:], strict=False))


class TableState:
    def __init__(self, sentence: Tensor, last: Tensor) -> None:
        self.sentence, self.last = sentence, last

    def select(self, index: Tensor) -> "TableState":
        return TableState(self.sentence[index], self.last[index])

    def join(self, other: "TableState") -> "TableState":
        return TableState(torch.cat((self.sentence, other.sentence)), torch.cat((self.last, other.last)))


def everything() -> list[tuple[int, ...]]:
    """All outputs: they end at the first end mark, or at the length limit."""
    words = [w for w in range(V) if w != END]
    outputs = [(*body, END) for n in range(LENGTH) for body in itertools.product(words, repeat=n)]
    return outputs + list(itertools.product(words, repeat=LENGTH))


def no_repeat(words: tuple[int, ...]) -> bool:
    pairs = list(itertools.pairwise(words))
    return len(set(pairs)) == len(pairs)


def spelled(words: Sequence[int]) -> str:
    return "".join(map(str, words))


def stops(words: tuple[int, ...]) -> bool:
    """Ends right after the string that stops it, if that comes up."""
    at = spelled(words).find(STOP)
    return at < 0 or words[at + 2 :] == ((END,) if at + 2 < LENGTH else ())


def charged(name: str, words: tuple[int, ...]) -> tuple[int, ...]:
    """Without an end mark that costs nothing."""
    return words[:-1] if name == "stop" and spelled(words).endswith(f"{STOP}{END}") else words


STOP = "30"
PREFIX = [[3, 4], [0], [4, 4]]
FILTERS = {
    "none": ([], lambda s, w: True),
    "forbid": ([Forbid([3, 0])], lambda s, w: not {3, 0} & set(w)),
    "minimum": ([MinimumLength(3, END)], lambda s, w: END not in w[:3]),
    "no repeat": ([NoRepeat(2)], lambda s, w: no_repeat(w)),
    "prefix": ([ForcedPrefix(Padded.of(PREFIX))], lambda s, w: list(w[: len(PREFIX[s])]) == PREFIX[s]),
    "stop": ([Listen(lambda said: STOP in spelled(said), END)], lambda s, w: stops(w)),
    "halt": ([Halt()], lambda s, w: True),
    "listen": ([Listen(lambda said: False, END)], lambda s, w: True),
    "all": (
        [ForcedPrefix(Padded.of(PREFIX)), NoRepeat(2), MinimumLength(4, END)],
        lambda s, w: list(w[: len(PREFIX[s])]) == PREFIX[s] and no_repeat(w) and END not in w[:4],
    ),
}


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("rule", ["power", "gnmt"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_wide_beam_is_brute_force(name: str, rule: str, penalty: float) -> None:
    filters, allows = FILTERS[name]
    model = Table(3, seed=7)
    wide = len(everything())
    search = Beam(size=wide, num_best=3, max_length=LENGTH, length_penalty=penalty, length_rule=rule, ahead=LENGTH)  # type: ignore[arg-type]
    found = decode(model, Padded.of([[0], [1], [2]]), search, filters=filters)
    for sentence, hypotheses in enumerate(found):
        ranked = sorted(
            (
                (model.score(sentence, charged(name, w)) / search.normaliser(len(w)), w)
                for w in everything()
                if allows(sentence, w)
            ),
            reverse=True,
        )[:3]
        assert [tuple(h.tokens) for h in hypotheses] == [words for _, words in ranked]
        for hypothesis, (score, words) in zip(hypotheses, ranked, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-9)
            assert hypothesis.log_prob == pytest.approx(model.score(sentence, charged(name, words)), abs=1e-9)


@pytest.mark.parametrize("rule", ["power", "gnmt"])
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("num_best", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_the_early_stop_changes_nothing_but_the_work(
    num_best: int, penalty: float, rule: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 5
    search = Beam(size=size, num_best=num_best, max_length=12, length_penalty=penalty, length_rule=rule, ahead=12)
    batch = Padded.of([[i] for i in range(8)])
    early = Table(8, seed)
    stopped = decode(early, batch, search)
    monkeypatch.setattr("regard.decode.config.Beam.best_normaliser", lambda search, length, limits: math.inf)
    never = Table(8, seed)
    patient = decode(never, batch, search)
    assert [[h.tokens for h in hs] for hs in stopped] == [[h.tokens for h in hs] for hs in patient]
    assert early.steps <= never.steps == 8 * size * 12


@pytest.mark.parametrize("name", FILTERS)
def test_greedy_is_a_beam_of_one_under_filters(name: str) -> None:
    filters, _ = FILTERS[name]
    batch = Padded.of([[0], [1], [2]])
    one = decode(Table(3, 7), batch, Greedy(max_length=LENGTH), filters=filters)
    other = decode(Table(3, 7), batch, Beam(size=1, max_length=LENGTH), filters=filters)
    assert [h[0].tokens for h in one] == [h[0].tokens for h in other]
    # Where length does not count, breadth-first search with one survivor comes to the same by itself.
    beam = Beam(size=1, max_length=LENGTH, length_penalty=0.0)
    general = breadth_first(Job(Table(3, 7), batch, beam, filters))
    assert [h[0].tokens for h in one] == [h[0].tokens for h in general]


def test_every_filter_is_under_contract() -> None:
    covered = {type(f) for filters, _ in FILTERS.values() for f in filters}
    assert covered == set(Filter.__subclasses__())


def test_a_finished_row_costs_nothing_further() -> None:
    model = Table(6, 3)
    found = decode(model, Padded.of([[i] for i in range(6)]), Greedy(max_length=50))
    assert model.steps == sum(len(h[0].tokens) for h in found)
