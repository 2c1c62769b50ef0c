"""Labelled examples: every layout, every kind of broken file, the known sizes of real corpora."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import examples as module
from regard.data.config import ExamplesConfig, LabelledDataConfig, RunningText
from regard.data.examples import (
    CHOICES,
    LABELS,
    NUMBERS,
    QUESTIONS,
    TAGS,
    Example,
    Format,
    examples,
    read_examples,
    split,
)
from regard.errors import UserError
from regard.tasks.running_text import pieces

FORMATS = (LABELS, NUMBERS, CHOICES, TAGS, QUESTIONS)
DATA = Path(__file__).parents[3] / "shared" / "data"


def put(path: Path, data: str | bytes) -> ExamplesConfig:
    raw = data if isinstance(data, bytes) else data.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return ExamplesConfig(file=str(path))


def refusal(config: ExamplesConfig, form: Format, *, labelled: bool = True) -> str:
    with pytest.raises(UserError) as caught:
        list(examples(config, form, labelled=labelled))
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def squad(*articles: list[dict[str, Any]]) -> str:
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs} for paragraphs in articles]})


def paragraph(context: str, *answers: tuple[int, str]) -> dict[str, Any]:
    golds = [{"answer_start": start, "text": text} for start, text in answers]
    return {"context": context, "qas": [{"id": "1", "question": "Where?", "answers": golds}]}


@pytest.mark.parametrize("names", ["first\tsecond", "Sentence1\tsentence2", "question1\tquestion2"])
@pytest.mark.parametrize("label", ["label", "score"])
def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path, names: str, label: str) -> None:
    config = put(tmp_path / "a.tsv.gz", f"id\t{label}\t{names}\n7\tyes \t\"a\t b' \n8\tno\tc\t\n")
    expected = [Example(('"a', "b'"), "yes", 2), Example(("c", ""), "no", 3)]
    assert list(examples(config, LABELS)) == expected


def test_a_question_with_a_sentence_is_two_texts_and_a_sentence_alone_is_one(tmp_path: Path) -> None:
    both = put(tmp_path / "a.tsv", "index\tquestion\tsentence\tlabel\n0\tq\ts\t1\n")
    assert list(examples(both, LABELS)) == [Example(("q", "s"), "1", 2)]
    one = put(tmp_path / "b.tsv", "sentence\tlabel\ns\t1\n")
    assert list(examples(one, LABELS)) == [Example(("s",), "1", 2)]


def test_without_names_the_label_comes_last(tmp_path: Path) -> None:
    two = put(tmp_path / "a.tsv", "\ufeffa fine film\tgood\r\nnone\tbad")
    assert list(examples(two, LABELS)) == [Example(("a fine film",), "good", 1), Example(("none",), "bad", 2)]
    three = put(tmp_path / "b.tsv", "a\tb\t-1.5e0\nc\td\t4\n")
    assert list(examples(three, NUMBERS)) == [Example(("a", "b"), -1.5, 1), Example(("c", "d"), 4.0, 2)]


def test_without_labels_every_column_is_text_and_answers_are_none(tmp_path: Path) -> None:
    plain = put(tmp_path / "a.tsv", "a\tb\nc\td\n")
    expected = [Example(("a", "b"), None, 1), Example(("c", "d"), None, 2)]
    assert list(examples(plain, LABELS, labelled=False)) == expected
    for header in ("index\tsentence\n1\tx", "sentence\tlabel\nx\t"):
        named = put(tmp_path / "b.tsv", header)
        assert list(examples(named, NUMBERS, labelled=False)) == [Example(("x",), None, 2)]
    rows = {
        LABELS: ('{"first": "a", "second": "b"}', ("a", "b")),
        CHOICES: ('{"text": "a", "choices": ["b", "c"]}', ("a", "b", "c")),
        TAGS: ('{"words": ["a", "b"]}', ("a", "b")),
    }
    for form, (row, texts) in rows.items():
        config = put(tmp_path / "a.jsonl", row)
        assert list(examples(config, form, labelled=False)) == [Example(texts, None, 1)]
    words = put(tmp_path / "a.conll", "a\nb\n")
    assert list(examples(words, TAGS, labelled=False)) == [Example(("a", "b"), None, 1)]
    asked = put(tmp_path / "a.json", squad([paragraph("Here.")]))
    assert list(examples(asked, QUESTIONS, labelled=False)) == [Example(("Here.", "Where?"), None, 1)]


def test_objects_hold_labels_of_their_task(tmp_path: Path) -> None:
    def read(form: Format, *rows: Any) -> list[Example]:
        return list(examples(put(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))), form))

    labels = ["good", 3, True]
    found = read(LABELS, *({"text": " a ", "label": label} for label in labels))
    assert found == [Example(("a",), "good", 1), Example(("a",), "3", 2), Example(("a",), "True", 3)]
    found = read(NUMBERS, {"first": "a", "second": "b", "label": 3}, {"text": "c", "label": "2.5"})
    assert found == [Example(("a", "b"), 3.0, 1), Example(("c",), 2.5, 2)]
    found = read(CHOICES, {"text": "a", "choices": [*"bc"], "label": 1}, {"text": "", "choices": [*"xyz"], "label": 0})
    assert found == [Example(("a", "b", "c"), 1, 1), Example(("", "x", "y", "z"), 0, 2)]
    found = read(TAGS, {"words": ["Ada", "slept"], "tags": ["B-PER", "O"]})
    assert found == [Example(("Ada", "slept"), ("B-PER", "O"), 1)]


@pytest.mark.parametrize("name", ["a.conll", "a.txt", "a.conll.gz"])
def test_words_stand_first_and_tags_last_with_blank_lines_between_sentences(tmp_path: Path, name: str) -> None:
    text = "-DOCSTART- -X- O\n\n\nAda NNP  B-PER\nslept\tVBD\tO\r\n  \n-DOCSTART- -X- -X- O\nHm UH O"
    assert list(examples(put(tmp_path / name, text), TAGS)) == [
        Example(("Ada", "slept"), ("B-PER", "O"), 4),
        Example(("Hm",), ("O",), 8),
    ]


def test_answers_that_do_not_stand_at_their_place_are_left_out(tmp_path: Path) -> None:
    here = paragraph("Denver, not denver", (0, "Denver"), (1, "Denver"), (12, "denver"), (-6, "denver"), (3, ""))
    config = put(tmp_path / "a.json", "\ufeff" + squad([here], [paragraph("Ünder", (1, "n"))]))
    assert list(examples(config, QUESTIONS)) == [
        Example(("Denver, not denver", "Where?"), ((0, "Denver"), (12, "denver")), 1),
        Example(("Ünder", "Where?"), ((1, "n"),), 2),
    ]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_file_of_another_layout_is_refused_with_those_the_task_takes(tmp_path: Path, form: Format) -> None:
    others = {ending for each in FORMATS for ending in each.endings if not ending.endswith(".gz")} | {".csv"}
    for ending in others - {*form.endings}:
        message = refusal(put(tmp_path / f"a{ending}", "x"), form)
        assert re.search(f"a{ending}.*{form.name}.*{', '.join(form.endings)}", message)


@pytest.mark.parametrize(
    ("text", "form", "why"),
    [
        ("a\tb\tc\nd\te\n", LABELS, "line 2.*columns.* 2.* 3 "),
        ("text\tlabel\na\tb\tc\n", LABELS, "line 2.*columns.* 3.* 2 "),
        ("a\t1\n\n", LABELS, "line 2.*columns.* 1.* 2 "),
        ("alone\n", LABELS, "line 1.*columns.* 1"),
        ("a\tb\tc\td\n", LABELS, "line 1.*columns.* 4"),
        ("text\tgrade\na\t1\n", LABELS, "line 1.*text, grade.*text.*label"),
        ("label\tfirst\n1\ta\n", LABELS, "line 1.*label, first.*text.*label"),
        ("\t".join(["label"] * 9999), LABELS, "line 1.*label, label"),
        ("a\tx\nb\t \n", LABELS, "line 2.*label.*''"),
        ("text\tlabel\na\tgood\n", NUMBERS, "line 2.*label.*'good'.*number"),
        ("a\t1\nb\tnan\n", NUMBERS, "line 2.*label.*'nan'.*number"),
        ("a\t-1e999\n", NUMBERS, "line 1.*label.*'-1e999'.*number"),
        ("a\t" + "9" * 9999, NUMBERS, "line 1.*label.*'9{59} .*number"),
        ("text\tlabel\n", LABELS, "example"),
        ("", NUMBERS, "example"),
        ("a\0\tb", LABELS, "line 1.*NUL"),
        (b"a\tb\n\xff\tb\n", LABELS, "line 2.*byte 4 "),
    ],
)
def test_broken_tables_are_told_by_line(tmp_path: Path, text: str | bytes, form: Format, why: str) -> None:
    config = put(tmp_path / "a.tsv", text)
    message = refusal(config, form)
    assert message.startswith(str(config.file))
    assert re.search(why, message)


NO_OBJECTS = ["", "{", "[1]", "7", "null", "{}", '"text"', "[" * 100_000]
NO_LABELS = ['""', '" "', "0.5", "null", "[[]]", f"[{'1,' * 9999}1]"]
BROKEN: dict[Format, list[str]] = {
    LABELS: [
        *NO_OBJECTS,
        *(f'{{"text": "a", "label": {label}}}' for label in NO_LABELS),
        '{"text": "a"}',
        '{"text": 1, "label": "b"}',
        '{"first": "a", "label": 1}',
        r'{"text": "\ud800", "label": "b"}',
    ],
    NUMBERS: [
        f'{{"text": "a", "label": {label}}}'
        for label in ('"b"', "true", "NaN", "1e999", f"1{'0' * 400}", f"1{'0' * 9999}", "null", "[]")
    ],
    CHOICES: [
        *(f'{{"text": "a", "choices": ["b", "c"], "label": {n}}}' for n in ("2", "-1", "true", '"1"', "0.0", "null")),
        '{"text": "a", "choices": ["b"], "label": 0}',
        '{"text": "a", "choices": "bc", "label": 0}',
        '{"choices": ["b", "c"], "label": 0}',
    ],
    TAGS: [
        *NO_OBJECTS,
        '{"words": ["a"], "tags": ["O", "O"]}',
        '{"words": [], "tags": []}',
        '{"words": ["a", " "], "tags": ["O", "O"]}',
        '{"words": ["a"], "tags": [""]}',
        '{"words": ["a"], "tags": [1]}',
        '{"words": "ab", "tags": "OO"}',
        '{"words": ["a"]}',
    ],
}


@pytest.mark.parametrize(("form", "row"), [(form, row) for form, rows in BROKEN.items() for row in rows])
def test_broken_objects_are_told_by_line_with_one_that_would_do(tmp_path: Path, form: Format, row: str) -> None:
    good = form.such.partition("}")[0] + "}"
    config = put(tmp_path / "a.jsonl", f"{good}\n{row}\n")
    assert next(examples(config, form)).line == 1
    message = refusal(config, form)
    assert f"{config.file}, line 2" in message
    assert good in message


def test_broken_columns_of_words_are_told_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(put(tmp_path / "a.conll", "a\nb\n"), TAGS)
    assert re.search("line 1.*columns.* 1.* 2 ", message)
    message = refusal(put(tmp_path / "b.conll", "a X O\n\n# a remark: 1\n"), TAGS)
    assert re.search("line 3.*columns.* 4.* 3 .*word.*tag", message)
    assert "example" in refusal(put(tmp_path / "c.conll", "\n-DOCSTART- O\n\n"), TAGS)
    monkeypatch.setattr(module, "LONGEST", 20)
    assert len(read_examples([put(tmp_path / "d.conll", "a O\n\n" * 50)], TAGS)) == 50
    message = refusal(put(tmp_path / "e.conll", "a O\n\n" + "a O\n" * 50), TAGS)
    assert re.search("line 3.*sentence", message)


def test_broken_questions_are_told_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = paragraph("Here.", (0, "Here"))
    for bad in (paragraph("Here."), paragraph("Here.", (1, "Here")), paragraph("Here.", (0, 7))):  # type: ignore[arg-type]
        message = refusal(put(tmp_path / "a.json", squad([good], [bad])), QUESTIONS)
        assert re.search(r"a\.json.*question 2.*SQuAD", message)
        assert "answer_start" in message
    for bad in ({"context": 7, "qas": [{"question": "?", "answers": []}]}, {"context": "a", "qas": [7]}):
        assert re.search("question 1.*SQuAD", refusal(put(tmp_path / "b.json", squad([bad])), QUESTIONS))
    for text in ("", "{", "[]", "7", '{"data": 7}', '{"data": ["a"]}', "[" * 100_000, b"\xff\xfe\xff"):
        assert re.search(r"c\.json.*SQuAD", refusal(put(tmp_path / "c.json", text), QUESTIONS))
    assert "example" in refusal(put(tmp_path / "d.json", squad([])), QUESTIONS)
    message = refusal(ExamplesConfig(file=str(tmp_path / "e.json")), QUESTIONS)
    assert re.search(r"e\.json.*No such file", message)
    with pytest.raises(UserError, match=r"file 'a\\x00\.json'.* 7 .*4,096"):
        ExamplesConfig(file="a\0.json")
    monkeypatch.setattr(module, "LARGEST", 1 << 20)
    assert re.search(r"f\.json.* 1,048,576 ", refusal(put(tmp_path / "f.json", " " * (1 << 20) + "{}"), QUESTIONS))


def test_named_corpora_have_the_columns_of_the_official_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    mnli = (
        "index\tpromptID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n0\t1\t(\ta\tb\tx\tneutral\n1\t2\n"
    )
    mrpc = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t8\t9\ta\tb"
    qqp = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t8\tbroken\n1\t2\t3\ta?\tb?\t1\n"
    files = {
        "glue/CoLA/dev": ("CoLA/dev.tsv", 'gj04\t0\t*\t"a\n', Example(('"a',), "0", 1)),
        "glue/MRPC/train": ("MRPC/train.tsv", mrpc, Example(("a", "b"), "1", 2)),
        "glue/MNLI/dev": ("MNLI/dev_matched.tsv", mnli, Example(("a", "b"), "neutral", 2)),
        "glue/MNLI/dev_mismatched": ("MNLI/dev_mismatched.tsv", mnli, Example(("a", "b"), "neutral", 2)),
        "glue/QQP/train": ("QQP/train.tsv", qqp, Example(("a?", "b?"), "1", 3)),
    }
    for corpus, (name, text, example) in files.items():
        put(tmp_path / "glue" / name, text)
        assert list(examples(ExamplesConfig(corpus=corpus), LABELS)) == [example]
    put(tmp_path / "glue" / "SST-2" / "dev.tsv", "sentence\tlabel\na\n")
    assert re.search("line 2.*columns.* 1", refusal(ExamplesConfig(corpus="glue/SST-2/dev"), LABELS))


def test_a_corpus_that_is_not_there_or_not_for_the_task_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    message = refusal(ExamplesConfig(corpus="glue/QNLI/train"), LABELS)
    assert message.startswith(str(tmp_path / "glue/QNLI/train.tsv"))
    assert "REGARD_DATA" in message
    assert "GLUE" in message
    assert "SQuAD v1.1" in refusal(ExamplesConfig(corpus="squad/test"), QUESTIONS)
    message = refusal(ExamplesConfig(corpus="glue/SST2/train"), LABELS)
    assert re.search("'glue/SST2/train'[^/]*glue/SST-2/train", message), "the nearest before all others"
    for corpus, fit, form in (("glue/STS-B/dev", NUMBERS, LABELS), ("squad/all", QUESTIONS, TAGS)):
        assert re.search(f"{corpus}.*{fit.name}.*{form.name}", refusal(ExamplesConfig(corpus=corpus), form))
    monkeypatch.delenv("REGARD_DATA")
    assert "export REGARD_DATA=" in refusal(ExamplesConfig(corpus="glue/SST-2/dev"), LABELS)


@pytest.mark.skipif(not (DATA / "glue").is_dir(), reason=f"no glue in {DATA}")
@pytest.mark.parametrize(
    ("corpus", "count", "positive"),
    [
        ("SST-2/train", 67_349, 37_569),
        ("SST-2/dev", 872, 444),
        ("CoLA/train", 8551, 6023),
        ("CoLA/dev", 1043, 721),
        ("MRPC/train", 3667, 2473),  # the copy kept here lacks one of the official 3,668
        ("MRPC/dev", 408, 279),
        ("RTE/train", 2490, 1241),
        ("RTE/dev", 277, 131),
        ("STS-B/train", 5749, None),
        ("STS-B/dev", 1500, None),
    ],
)
def test_glue_has_its_known_size(
    corpus: str, count: int, positive: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(DATA))
    form: Format = LABELS if positive else NUMBERS
    found = read_examples([ExamplesConfig(corpus=f"glue/{corpus}")], form)
    assert len(found) == count
    assert {len(example.texts) for example in found} == {1 if corpus[:4] in ("SST-", "CoLA") else 2}
    if positive:
        last = max(example.answer for example in found)
        assert len({example.answer for example in found}) == 2
        assert sum(example.answer == last for example in found) == positive
    else:
        assert {min(e.answer for e in found), max(e.answer for e in found)} == {0.0, 5.0}


@pytest.mark.skipif(not (DATA / "squad").is_dir(), reason=f"no squad in {DATA}")
def test_squad_is_split_by_article_and_every_answer_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(DATA))
    whole, train, test = (
        read_examples([ExamplesConfig(corpus=f"squad/{part}")], QUESTIONS) for part in ("all", "train", "test")
    )
    assert sorted([*train, *test], key=lambda example: example.line) == whole
    assert (len(whole), len(test)) == (10_570, 1731)  # 268 + 215 + 182 + 295 + 98 + 176 + 291 + 206 by title
    assert {e.texts[0] for e in train}.isdisjoint(e.texts[0] for e in test)
    assert all(e.texts[0][at : at + len(text)] == text for e in whole for at, text in e.answer)
    assert sum(len(example.answer) for example in whole) == 34_726
    assert test[0].texts[0].startswith("The role of teacher")


def test_squad_test_is_every_sixth_article(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    put(tmp_path / "squad" / "dev-v1.1.json", squad(*([paragraph(f"{i} ", (0, str(i)))] for i in range(13))))
    held = [e.answer[0][1] for e in examples(ExamplesConfig(corpus="squad/test"), QUESTIONS)]
    kept = [e.answer[0][1] for e in examples(ExamplesConfig(corpus="squad/train"), QUESTIONS)]
    assert held == ["5", "11"]
    assert kept == ["0", "1", "2", "3", "4", "6", "7", "8", "9", "10", "12"]


def test_equal_texts_are_held_out_together_and_nothing_is_lost(tmp_path: Path) -> None:
    config = put(tmp_path / "a.tsv", "".join(f"text {i % 100}\t{i}\n" for i in range(300)))
    train, valid = split(LabelledDataConfig(train=(config,), hold_out=0.2), LABELS)
    assert sorted([*train, *valid], key=lambda e: e.line) == read_examples([config], LABELS)
    assert {e.texts for e in train}.isdisjoint(e.texts for e in valid)
    assert 30 <= len(valid) <= 90  # of 100 texts, 20 expected, 4 the standard deviation; three times each
    given_valid = LabelledDataConfig(train=(config,), valid=(config, config))
    assert [len(part) for part in split(given_valid, LABELS)] == [300, 600]


def test_questions_on_a_document_are_held_out_together(tmp_path: Path) -> None:
    pages = [paragraph(f"{i} Here.", (2 + (i > 9), "Here")) for i in range(40)]
    for page in pages:
        page["qas"] = [{**page["qas"][0], "question": f"{n}?"} for n in range(3)]
    config = put(tmp_path / "a.json", squad(pages))
    train, valid = split(LabelledDataConfig(train=(config,), hold_out=0.3), QUESTIONS)
    assert len(train) + len(valid) == 120
    assert {e.texts[0] for e in train}.isdisjoint(e.texts[0] for e in valid)


def test_a_limit_draws_the_same_examples_every_time_and_a_larger_one_adds_to_them(tmp_path: Path) -> None:
    config = put(tmp_path / "a.tsv", "".join(f"text {i}\t{i}\n" for i in range(100)))
    few, more, all_of_them = (
        split(LabelledDataConfig(train=(config,), limit=limit), LABELS)[0] for limit in (10, 30, 1000)
    )
    assert (len(few), len(more), len(all_of_them)) == (10, 30, 100)
    assert {*few} < {*more} < {*all_of_them}
    assert few == sorted(few, key=lambda e: e.line)
    assert few != all_of_them[:10]
    assert split(LabelledDataConfig(train=(config,), limit=10), LABELS)[0] == few
    drawn, held = split(LabelledDataConfig(train=(config,), limit=10, hold_out=0.5), LABELS)
    assert len(drawn) == 10
    assert len(held) > 30


def test_a_share_that_holds_out_all_or_nothing_is_refused(tmp_path: Path) -> None:
    config = put(tmp_path / "a.tsv", "a\t1\n")  # crc32 of "a" is 0.91 of the way
    with pytest.raises(UserError, match=r"hold_out 0\.5 .*\bnone\b"):
        split(LabelledDataConfig(train=(config,), hold_out=0.5), LABELS)
    config = put(tmp_path / "a.tsv", "c\t1\n")  # 0.02
    with pytest.raises(UserError, match=r"hold_out 0\.5 .*\ball\b"):
        split(LabelledDataConfig(train=(config,), hold_out=0.5), LABELS)


def test_settings_that_cannot_work_are_refused() -> None:
    some = (ExamplesConfig(file="a.tsv"),)
    for ways in ({}, {"file": "a.tsv", "corpus": "squad/all"}):
        with pytest.raises(UserError, match=f"file {ways.get('file')} .*corpus {ways.get('corpus')}"):
            ExamplesConfig(**ways)
    for given_settings, why in (
        ({"train": ()}, "train .*examples"),
        ({"train": some, "hold_out": 0.6}, r"hold_out 0\.6.* 0\.5.*valid"),
        ({"train": some, "valid": some, "hold_out": 0.1}, r"hold_out 0\.1.* 0\.5.*valid"),
        ({"train": some, "limit": 0}, "limit 0 .* 1 .*1,000,000,000"),
        ({"train": some, "max_length": 4}, "max_length 4 .* 5 "),
    ):
        with pytest.raises(UserError, match=why):
            LabelledDataConfig(**given_settings)  # type: ignore[arg-type]
    assert LabelledDataConfig(train=some, limit=1, max_length=5).valid == ()


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.binary(max_size=200) | st.text('a1 \t\n{}[],:"', max_size=60).map(str.encode),
    st.sampled_from([(form, ending) for form in FORMATS for ending in form.endings]),
    st.booleans(),
)
def test_any_bytes_give_examples_or_an_error_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: tuple[Format, str], labelled: bool
) -> None:
    form, ending = kind
    config = put(tmp_path_factory.getbasetemp() / f"any{ending}", data)
    try:
        found, told = read_examples([config], form, labelled=labelled), ""
    except UserError as error:
        found, told = [], str(error)
    assert found or str(config.file) in told
    assert all((example.answer is not None) == labelled for example in found)


def test_texts_of_labelled_corpora_are_read_without_their_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    put(tmp_path / "glue/CoLA/train.tsv", "gj04\t1\t\tIt rains.\ngj04\t0\t*\tRains it is.\n")
    put(tmp_path / "glue/RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\tIt rains.\tIt is wet.\tentailment\n")
    asked = {**paragraph("Here it rains.", (0, "Here")), "qas": paragraph("Here", (0, "Here"))["qas"] * 2}
    put(tmp_path / "squad/dev-v1.1.json", squad([asked, paragraph("And here.", (0, "And"))]))
    corpora = [RunningText(corpus=name) for name in ("glue/CoLA/train", "glue/RTE/train", "squad/all")]
    told = ["It rains.", "Rains it is.", "It rains.", "It is wet.", "Here it rains.", "And here."]
    assert list(pieces(corpora, "file")) == [(text, True) for text in told]


@pytest.mark.parametrize(
    ("text", "form", "labelled"),
    [
        ("review\tsentiment\na fine film\tgood\nbad\tnot\n", LABELS, True),
        ("Review Text\tairline_sentiment\na fine film\tgood\n", LABELS, True),
        ("q1\tq2\ttarget\na\tb\t1\nc\td\t0\n", LABELS, True),
        ("Kommentar\tKlasse\nein Film\tgut\nnoch einer\tgut\nder\tnicht\nund der\tnicht\n", LABELS, True),
        ("review\tpoints\na fine film\t4.5\n", NUMBERS, True),
        ("review\na fine film\nbad\n", LABELS, False),
    ],
)
def test_a_header_of_other_names_is_no_example(tmp_path: Path, text: str, form: Format, labelled: bool) -> None:
    with pytest.raises(UserError, match="line 1.*columns.*text.*label"):
        list(examples(put(tmp_path / "a.tsv", text), form, labelled=labelled))


@pytest.mark.parametrize(
    "text",
    [
        "great\tgood\nbad\tnot\n",  # a class of one example
        "great\tgood\nno good\tnot\nbad one\tnot\n",
        "a fine film\tgood\nbad\tnot\nworse\tnot\nwell\tso-so\nfair\tso-so\n",
        "great film\tgood\nbad\tnot\nworse\tnot\nwell\tso-so\nfair\tso-so\n",
        "title\tnoun\nbook\tnoun\nread\tverb\n",
        "class\t1\nbook\t0\n",
        "text\tlabel\nreview\tsentiment\nbad\tnot\n",  # under a line of names anything goes
    ],
)
def test_a_first_example_is_taken_for_no_header(tmp_path: Path, text: str) -> None:
    count = text.count("\n") - text.startswith("text\t")
    assert len(list(examples(put(tmp_path / "a.tsv", text), LABELS))) == count
