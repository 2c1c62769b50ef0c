import json
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from regard.data import tokenizer as module
from regard.data.config import TokenizerConfig
from regard.data.library import BYTES
from regard.data.tokenizer import END, PADDING, START, UNKNOWN, ForeignTokenizer, Tokenizer
from regard.errors import UserError

TEXTS = ["the cat sat on the mat", "die Katze saß auf der Matte </s> <2de>", "猫が座った\u3000the end 😀"] * 4
TAGS = ("de", "fr")
KINDS = ("bpe", "unigram", "words", "characters")
NORMALS = {"none": lambda text: text, "nfc": normalizers.NFC().normalize_str, "nfkc": normalizers.NFKC().normalize_str}


def trained(kind: Any, normalise: Any = "nfc") -> Tokenizer:
    return Tokenizer.train(iter(TEXTS), TokenizerConfig(kind=kind, vocabulary=350, normalise=normalise), TAGS)


SUBWORDS = {(kind, form): trained(kind, form) for kind in ("bpe", "unigram") for form in NORMALS}


@pytest.mark.parametrize(("kind", "form"), SUBWORDS)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(text=st.text() | st.text(" \t\n\u3000\u00a0aé\u0301</s>2de<>\0\ufeff", max_size=12))
def test_any_text_comes_back_exactly(kind: str, form: str, text: str) -> None:
    tokenizer = SUBWORDS[kind, form]
    [ids] = tokenizer.encode([text])
    assert tokenizer.decode(ids) == NORMALS[form](text)
    assert len(tokenizer.words(ids)) == len(tokenizer.pieces(ids)) == len(ids)
    assert min(ids) >= 6, "no text makes a control id"


def test_normalisation_is_what_unicode_says() -> None:
    text = "e\u0301 ﬁ Ａ"
    for form, tokenizer in ((f, SUBWORDS["bpe", f]) for f in ("nfc", "nfkc")):
        assert tokenizer.decode(tokenizer.encode([text])[0]) == unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_spelled_in_text_stay_text(kind: str) -> None:
    tokenizer = trained(kind)
    text = "<pad> <start> </s> <unk> <2de> <2fr> ??"
    [ids] = tokenizer.encode([text])
    assert not set(ids) & {PADDING, START, END, 4, 5}
    if kind in ("bpe", "unigram"):
        assert UNKNOWN not in ids
        assert tokenizer.decode(ids) == text
    [known] = tokenizer.encode(["</s> <2de>"])
    assert tokenizer.decode(known) == "</s> <2de>"
    assert tokenizer.decode([START, 5, *known, END, PADDING]) == "</s> <2de>"


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_counts_everything_and_is_filled(kind: Any) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=300 if kind in ("bpe", "unigram") else 12)
    texts = [" ".join(f"{a}{b}{a}ung" for b in "xyzuvw") for a in "abcdefghijkl"] * 3
    tokenizer = Tokenizer.train(iter(texts), config, TAGS)
    assert tokenizer.vocabulary <= config.vocabulary
    assert tokenizer.vocabulary > config.vocabulary * 0.9
    ids = tokenizer.encode(texts)
    assert max(max(row) for row in ids) < tokenizer.vocabulary


def test_words_and_characters_know_what_they_have_seen() -> None:
    words, characters = trained("words"), trained("characters")
    [ids] = words.encode(["the  dog\tsat"])
    assert ids[1] == UNKNOWN
    assert words.decode(ids) == "the ⁇ sat"
    assert words.pieces(ids) == ["the", "<unk>", "sat"]
    [ids] = characters.encode(["the  ?? q"])
    assert characters.decode(ids) == "the  ⁇⁇ ⁇"
    assert characters.pieces(ids)[:5] == ["t", "h", "e", "▁", "▁"]
    assert words.encode(["", " "]) == [[], []]
    assert characters.encode([""]) == [[]]


def test_half_a_surrogate_pair_is_a_replacement_character() -> None:
    tokenizer = SUBWORDS["bpe", "nfc"]
    assert tokenizer.decode(tokenizer.encode(["a\ud83d \ud83d\ude00"])[0]) == "a\ufffd 😀"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
def test_pieces_of_one_word_share_a_group(kind: str) -> None:
    tokenizer = trained(kind)
    [ids] = tokenizer.encode(["the xyz,\u3000cat  </s>"])
    row = [START, 4, *ids, END]
    groups = tokenizer.words(row)
    merged = ["".join(tokenizer.decode([i]) for i, g in zip(row, groups, strict=True) if g == n) for n in range(7)]
    assert groups[:2] == [0, 1]
    assert groups == sorted(groups)
    assert set(groups) == set(range(7))
    if kind != "unigram":  # whose pieces are single bytes here, which spell nothing alone
        assert [word.strip() for word in merged][2] == "the"
    spelled = ["".join(p for p, g in zip(tokenizer.pieces(row), groups, strict=True) if g == n) for n in range(7)]
    assert [s.strip("▁") for s in spelled][:3] == ["<start>", "<2de>", "the"]
    assert [s.strip("▁") for s in spelled][-2:] == ["</s>", "</s>"]


def test_pieces_can_be_printed() -> None:
    tokenizer = SUBWORDS["bpe", "none"]
    [ids] = tokenizer.encode(["the \n€"])
    assert tokenizer.pieces([START, *ids, UNKNOWN, 5, END]) == [
        "<start>", "▁the", "▁", "\\n", "<E2>", "<82>", "<AC>", "<unk>", "<2fr>", "</s>",
    ]  # fmt: skip
    assert set(BYTES) == set(ByteLevel.alphabet())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_loads_as_the_same(kind: str, tmp_path: Path) -> None:
    tokenizer, path = trained(kind), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert (loaded.kind, loaded.tags, loaded.vocabulary) == (kind, TAGS, tokenizer.vocabulary)
    assert loaded.encode(TEXTS) == tokenizer.encode(TEXTS)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert {"format", "version", "kind", "tags", "tokenizer", "sha256"} == set(json.loads(first))


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_the_same_text_trains_the_same_tokenizer(kind: str) -> None:
    assert trained(kind)._library.to_str() == trained(kind)._library.to_str()


def harmed(content: dict[str, Any]) -> Iterator[bytes]:
    yield from (b"", b"\xff", b"[]", b"7", b"null", b"{}", b"[" * 100_000)
    yield json.dumps(content).encode()[:-9]
    for key in content:
        yield json.dumps({k: v for k, v in content.items() if k != key}).encode()
        for value in (None, [7], {}, "x", 10**30):
            yield json.dumps(content | {key: value}).encode()
    inner = content["tokenizer"]
    added = {"id": 0, "content": "the", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    yield json.dumps(content | {"tokenizer": inner | {"added_tokens": [added | {"special": True}]}}).encode()
    yield json.dumps(content | {"tags": ["de", "de"]}).encode()
    for key in inner["model"]:
        if key in ("vocab", "type", "unk_token"):
            for value in ({}, {"": 0}, {"a": 10**9}, {" ": 1, "a": 2}, [["a", 0.5]], "Unigram", 7, "zzz"):
                yield json.dumps(content | {"tokenizer": inner | {"model": inner["model"] | {key: value}}}).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_file_is_a_user_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained(kind).save(path)
    good = path.read_bytes()
    seen = 0
    for data in harmed(json.loads(good)):
        path.write_bytes(data)
        try:
            loaded = Tokenizer.load(path)
        except UserError as error:
            assert str(path) in str(error)  # noqa: PT017
            assert "Regard" in str(error)  # noqa: PT017
            seen += 1
        else:
            loaded.decode(loaded.encode(["still works é"])[0])  # what loads can be used
    assert seen >= 30


def test_a_file_that_is_missing_or_too_large_is_a_user_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match=r"tokenizer\.json.*No such file"):
        Tokenizer.load(path)
    trained("bpe").save(path)
    monkeypatch.setattr(module, "LARGEST", 100)
    with pytest.raises(UserError, match=r"tokenizer\.json.* 100 "):
        Tokenizer.load(path)


def test_tags_have_ids_of_their_own() -> None:
    tokenizer = trained("bpe")
    assert [tokenizer.tag_id(tag) for tag in TAGS] == [4, 5]
    with pytest.raises(UserError, match="'es'.*de, fr"):
        tokenizer.tag_id("es")
    with pytest.raises(UserError, match="tags.*de, de"):
        Tokenizer.train(iter(TEXTS), TokenizerConfig(), ("de", "de"))
    with pytest.raises(UserError, match="300 .* 50 .*310"):
        Tokenizer.train(iter(TEXTS), TokenizerConfig(vocabulary=300), [str(n) for n in range(50)])


def test_foreign_ids_and_no_text_are_user_errors() -> None:
    tokenizer = trained("words")
    for call in (tokenizer.decode, tokenizer.pieces, tokenizer.words):
        for ids in ([-1], [tokenizer.vocabulary]):
            with pytest.raises(UserError, match=f"ids.* {ids[0]} .*{tokenizer.vocabulary}"):
                call(ids)
        assert not call([])
    with pytest.raises(UserError, match="text"):
        Tokenizer.train(iter([]), TokenizerConfig())


def test_an_error_in_the_data_reaches_the_user() -> None:
    def texts() -> Iterator[str]:
        yield "fine"
        raise UserError("file, line 2")

    with pytest.raises(UserError, match="file, line 2"):
        Tokenizer.train(texts(), TokenizerConfig())


NEW = ("zor", "zorblax", "Ünsinn", "</s>", "C", "C++", "cat")
PIECES = [*NEW, "<2de>", "the", " ", "  ", ",", ".", "(", "é", "x", "_", "\n", "9", "'s"]


def wordpiece() -> ForeignTokenizer:
    letters = "abcdefghijklmnopqrstuvwxyz"
    known = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *letters, *(f"##{c}" for c in letters), *",.()'<>/+0123456789"]
    library = Library(models.WordPiece({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    library.pre_tokenizer, library.normalizer = pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()  # type: ignore[assignment]
    controls = {i: word for i, word in enumerate(known) if word.startswith("[")}
    return ForeignTokenizer(json.loads(library.to_str()), controls, len(known), ([1], [2]))


def extended(kind: str) -> Tokenizer:
    if kind == "wordpiece":
        return wordpiece().extended(NEW)
    texts = ["the zorblax cat. </s> 9", "".join(PIECES)] * 2
    return Tokenizer.train(iter(texts), TokenizerConfig(kind=kind, vocabulary=300), TAGS).extended(NEW)  # type: ignore[arg-type]


EXTENDED = {kind: extended(kind) for kind in ("bpe", "unigram", "characters", "words", "wordpiece")}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
@settings(derandomize=True, max_examples=200, deadline=None)
@given(text=st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_text_with_new_words_comes_back_exactly(kind: str, text: str) -> None:
    tokenizer = EXTENDED[kind]
    [ids], [(placed, _)] = tokenizer.encode([text]), tokenizer.places([text])
    assert tokenizer.decode(ids) == text
    assert placed == ids
    assert not set(ids) & set(range(6))
    first = tokenizer.vocabulary - len(NEW)
    spoken = text if kind == "characters" else f" {text}"
    assert [NEW[i - first] for i in ids if i >= first] == list(standing(spoken))


def standing(text: str) -> Iterator[str]:
    """New words that stand after a space, and end where a word ends; of several the longest."""
    while " " in text:
        text = text[text.index(" ") + 1 :]
        ends = {word: (text[len(word) :] or " ")[0] for word in NEW if text.startswith(word)}
        if found := max((word for word, c in ends.items() if not (c.isalnum() or c == "_")), key=len, default=""):
            yield found
            text = text[len(found) :]


@pytest.mark.parametrize("kind", EXTENDED)
def test_a_new_word_is_one_token_where_it_stands_alone(kind: str, tmp_path: Path) -> None:
    tokenizer = EXTENDED[kind]
    first = tokenizer.vocabulary - len(NEW)
    tokenizer.save(tmp_path / "t.json")
    for each in (tokenizer, Tokenizer.load(tmp_path / "t.json")):
        assert (each.new_words, each.vocabulary) == (NEW, tokenizer.vocabulary)
        for text, wanted in [
            ("the zorblax", ["zorblax"]),
            ("the zorblax, the zor. the cat", ["zorblax", "zor", "cat"]),
            ("the zor zorblax zor the", ["zor", "zorblax", "zor"]),
            ("the zorblaxx xzorblax zor9", []),  # inside other words
            ("a zor's C++ </s>", ["zor", "C++", "</s>"]),
            ("the Ünsinn (cat", ["Ünsinn"]),  # after a bracket it is spelled
        ]:
            [ids] = each.encode([text])
            assert [NEW[i - first] for i in ids if i >= first] == wanted, text
        [ids] = each.encode(["zorblax the zor"])
        begins = kind != "characters"  # which know no space before a text
        assert [i - first for i in ids if i >= first] == ([1, 0] if begins else [0])
        pieces = each.pieces([first, first + 1])
        assert [piece.strip("▁") for piece in pieces] == ["zor", "zorblax"]
        assert each.is_word(first)
        assert each.begins_word(first)
    assert END not in tokenizer.encode(["a </s> zor </s>"])[0]


def test_new_words_come_after_those_that_came_before(tmp_path: Path) -> None:
    once = trained("bpe").extended(["zor"])
    twice = once.extended(["zorblax"])
    assert once.encode(["a zorblax"]) != twice.encode(["a zorblax"])
    assert once.encode(["zor"]) == twice.encode(["zor"]) == [[once.vocabulary - 1]]
    assert twice.encode(["zorblax"]) == [[twice.vocabulary - 1]]
    assert (twice.vocabulary, twice.new_words) == (trained("bpe").vocabulary + 2, ("zor", "zorblax"))
    twice.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert loaded.encode(TEXTS) == twice.encode(TEXTS) == trained("bpe").encode(TEXTS)
    assert trained("bpe").extended([]).new_words == ()
    for words in (["zor"], ["a", "a"], ["a b"], [""], ["a\n"], ["\u3000"], [str(i) for i in range(10_001)]):
        with pytest.raises(UserError, match="new words"):
            once.extended(words)
    content = json.loads((tmp_path / "t.json").read_bytes())
    for words in (["a", "a"], None, 7, [7], [None], ["a b"], [str(i) for i in range(100_000)]):
        (tmp_path / "t.json").write_text(json.dumps(content | {"new_words": words}))
        with pytest.raises(UserError, match=r"t\.json.*Regard"):
            Tokenizer.load(tmp_path / "t.json")


@pytest.mark.parametrize("new", [False, True], ids=["as trained", "new words"])
@pytest.mark.parametrize("kind", EXTENDED)
@settings(derandomize=True, max_examples=80, deadline=None)
@given(text=st.lists(st.sampled_from([p for p in PIECES if p.isascii()]), max_size=9).map("".join))
def test_places_cover_the_text(kind: str, new: bool, text: str) -> None:
    tokenizer = EXTENDED[kind]
    if not new:
        tokenizer = wordpiece() if kind == "wordpiece" else trained(kind)
    [(ids, spans)] = tokenizer.places([text])
    assert len(ids) == len(spans)
    assert ids == tokenizer.encode([text])[0]
    assert "".join(text[a:b] for a, b in spans).replace(" ", "").replace("\n", "") == "".join(text.split())
    assert all(0 <= a <= b <= len(text) for a, b in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert not any(text[a:b][:1].isspace() for a, b in spans)


@pytest.mark.parametrize(("kind", "form"), SUBWORDS)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(text=st.text())
def test_places_are_told_of_any_text(kind: str, form: str, text: str) -> None:
    """Bytes of one character have its place; what is normalised, the place of what it comes from."""
    [(ids, spans)] = SUBWORDS[kind, form].places([text])
    assert ids == SUBWORDS[kind, form].encode([text])[0]
    assert all(0 <= a <= b <= len(text) for a, b in spans)
    seen = {i for a, b in spans for i in range(a, b)}
    if form == "none":
        assert {i for i, c in enumerate(text) if not c.isspace()} <= seen
