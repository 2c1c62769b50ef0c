"""sentencepiece's models, and Marian's folders: the same pieces, ids and texts."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import io
import json
import random
import struct
import time
import unicodedata
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Library

from regard.data.tokenizer import Tokenizer
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.exchange.export import export
from regard.exchange.folders import load_any
from regard.exchange.huggingface import write_folder
from regard.exchange.words import llama_tokenizer, marian_tokenizers, read_spm
from regard.models.build import build
from regard.models.presets import llama
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from tests.ready import ready

SOURCE = [
    "the",
    "little",
    "café",
    "is",
    "naïve",
    "ﬁne",
    "ﬂag",
    "eﬀect",
    "Straße",
    "ＡＢＣ",
    "ｆｕｌｌ",
    "½",
    "²",
    "™",
    "…",
]
SOURCE += ["“so”", "«ça»", "été", "e\u0301te\u0301", "it's", "(ok)"]
TARGET = ["das", "kleine", "Café", "ist", "naiv", "Straße", "groß", "Äpfel", "übermäßig", "Ｆ", "Ω", "данные", "東京"]
TARGET += ["ｶﾀｶﾅ", "㎏", "„so“", "–", "nein", "ß", "ö"]
GAPS = [" ", "  ", "\t", "\u3000", "\u00a0", "\u200b", "\n", "\r\n", "▁", " ▁ ", ""]
ODD = [
    "",
    " ",
    "▁",
    "▁▁a▁",
    "  a ",
    "</s>",
    "a </s> b",
    "<unk> <s> <pad>",
    "\0x\7",
    "👩‍👩‍👧 ok",
    "x\u0308",
    "ＡＢＣ　ﬁ",
    "zzz 東京",
]
ODD += ["<0x41>", "ǅ ㍿ ﷺ", "\u00a8x", "～", "Tiếng Việt rất đẹp", "한국어 문장", "ガギグ パピプ", "ἀρχῇ ᾧ", "தமிழ்"]
ODD += [unicodedata.normalize("NFD", text) for text in ODD[-5:]]


def texts(words: list[str], count: int = 200) -> list[str]:
    draw, found = random.Random(5), list(ODD)
    while len(found) < count:
        chosen = draw.choices(words, k=draw.randrange(1, 12))
        found.append("".join(word + draw.choice(GAPS) for word in chosen))
        found.append(
            "".join(chr(draw.choice((draw.randrange(32, 0x300), draw.randrange(0x4E00, 0xD7A4)))) for _ in range(9))
        )
    return found[:count]


def trained(words: list[str], kind: str, **settings: Any) -> bytes:
    """A small model of sentencepiece's own."""
    trainer = pytest.importorskip("sentencepiece", reason="the package sentencepiece is not installed")
    draw, out = random.Random(1), io.BytesIO()
    lines = (" ".join(draw.choices(words, k=9)) for _ in range(400))
    settings = {"vocab_size": 110, "hard_vocab_limit": False, **settings}
    trainer.SentencePieceTrainer.train(
        sentence_iterator=lines,
        model_writer=out,
        model_type=kind,
        minloglevel=2,
        num_threads=1,
        character_coverage=0.99,
        **settings,
    )
    return out.getvalue()


def processor(data: bytes) -> Any:
    return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=data)


def written(folder: Path, kind: str = "unigram", codes: tuple[str, ...] = ()) -> dict[str, int]:
    """As Marian's folders are: pieces of both sides in one list, of which some are left out."""
    models = {"source": trained(SOURCE, kind), "target": trained(TARGET, kind)}
    if kind == "bpe":  # the library does not tell which character was unknown, so that the other side may know it
        models = dict.fromkeys(models, trained(SOURCE + TARGET, kind, vocab_size=180))
    words = ["</s>", "<unk>", *codes]
    for side, data in models.items():
        (folder / f"{side}.spm").write_bytes(data)
        library = processor(data)
        words += [library.id_to_piece(i) for i in range(3, len(library)) if i % 7]
    vocab = {word: i for i, word in enumerate([*dict.fromkeys(words), "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    return vocab


def marian(folder: Path) -> Any:
    with warnings.catch_warnings(action="ignore"):  # it recommends a package that it does not use
        return hf.MarianTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "settings",
    [{}, {"normalization_rule_name": "nmt_nfkc_cf"}, {"normalization_rule_name": "identity"},
     {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False}],
)  # fmt: skip
def test_unigram_pieces_are_sentencepieces(settings: dict[str, Any], tmp_path: Path) -> None:
    data = trained(SOURCE, "unigram", **settings)
    (tmp_path / "source.spm").write_bytes(data)
    wanted, (_, library) = processor(data), read_spm(tmp_path / "source.spm")
    ours = Library.from_str(json.dumps(library))
    for text in texts(SOURCE):
        assert ours.encode(text).tokens == wanted.encode(text, out_type=str), text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_marians_ids_and_texts_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    vocab = written(tmp_path, kind, codes=(">>fra<<", ">>pt_BR<<"))
    theirs, ours = marian(tmp_path), marian_tokenizers(tmp_path, len(vocab))
    source, target = texts(SOURCE), texts(TARGET)
    wanted = [theirs(text, split_special_tokens=True)["input_ids"] for text in source]
    assert ours.read(source) == wanted
    said = [theirs(text_target=text, split_special_tokens=True)["input_ids"] for text in target]
    assert [ours.target.framed(ids) for ids in ours.target.encode(target)] == said
    shown = [theirs.decode(ids, skip_special_tokens=True, use_source_tokenizer=False) for ids in said]
    assert [ours.target.decode(ids) for ids in said] == shown
    assert any(1 in ids for ids in wanted)
    assert len({len(ids) for ids in wanted}) > 20
    ours.source.save(tmp_path / "tokenizer.json")
    assert [ours.source.framed(ids) for ids in Tokenizer.load(tmp_path / "tokenizer.json").encode(source)] == wanted


def test_a_language_that_is_known_is_told_before_a_text(tmp_path: Path) -> None:
    vocab = written(tmp_path, codes=(">>fra<<", ">>pt_BR<<"))
    theirs, ours = marian(tmp_path), marian_tokenizers(tmp_path, len(vocab))
    told = [">>fra<< the café", ">>fra<<the café", ">>pt_BR<< it's", ">>fra<<", ">>fra<< >>pt_BR<< ok"]
    assert ours.read(told) == theirs(told)["input_ids"]
    assert [row[0] for row in ours.read(told)] == [2, 2, 3, 2, 2]
    plain = ["the >>fra<< café", " >>fra<< ok", ">>deu<< ok", ">>fra< ok", ">> <<"]
    assert not any({2, 3} & {*row} for row in ours.read(plain)), "what is no code, or not in front, is text"
    assert ours.source.pieces([2, 3, 0]) == [">>fra<<", ">>pt_BR<<", "</s>"]
    assert ours.read([">>deu<< ok"]) != ours.read(["ok"])


def test_control_tokens_cannot_be_spelled(tmp_path: Path) -> None:
    vocab = written(tmp_path)
    ours = marian_tokenizers(tmp_path, len(vocab)).source
    for row in ours.encode(["</s>", "a</s>b", "<pad> </s>", "</s></s>"]):
        assert not {vocab["</s>"], vocab["<pad>"]} & {*row}


def test_a_whole_folder_says_what_transformers_says(tmp_path: Path) -> None:
    """With a padding that would be said everywhere if nobody forbade it."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    vocab = written(folder)
    pad, shape = len(vocab) - 1, dict(d_model=16, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=20)
    marks = dict(pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=None)
    torch.manual_seed(7)
    config = hf.MarianConfig(
        vocab_size=len(vocab), decoder_ffn_dim=20, encoder_attention_heads=2, decoder_attention_heads=2, init_std=2.0,
        activation_function="swish", scale_embedding=True, max_position_embeddings=64, **shape, **marks,
    )  # fmt: skip
    model = hf.MarianMTModel(config).eval()
    model.final_logits_bias[0, pad] = 90.0
    model.final_logits_bias[0, 0] = 1.0
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)

    sources, theirs = ["the little café", "été ﬁne ＡＢＣ", "it's (ok)", "naïve Straße"], marian(folder)
    how = {"do_sample": False, "num_beams": 1, "max_new_tokens": 12}
    said = [model.generate(**theirs(text, return_tensors="pt"), **how)[0].tolist() for text in sources]
    wanted = [theirs.decode(ids, skip_special_tokens=True, use_source_tokenizer=False) for ids in said]
    loaded = load_any(folder)
    assert loaded.tokenizers is not None
    assert ready(loaded, search=Greedy(max_length=12, never=loaded.search.never))(sources) == wanted
    assert loaded.search.never == (pad,)
    assert len(set(wanted)) >= 3
    out.mkdir()
    save_model(out, loaded.model, loaded.task, loaded.search, loaded.max_length, {})
    save_tokenizers(out, loaded.tokenizers)
    again = load_folder(out)
    assert ready(again, search=Greedy(max_length=12, never=again.search.never))(sources) == wanted
    for kind in ("huggingface", "ctranslate2", "onnx"):
        told = export(loaded, kind, tmp_path / kind, sources)
        assert "4 of 4 texts" in told
        assert "sentencepiece" in told


@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_a_llama_with_its_sentencepiece_model_alone_is_read(rule: str, tmp_path: Path) -> None:
    words, options = [*SOURCE, "aaaa", "....", "----", "abab"], {"vocab_size": 420, "byte_fallback": True}
    extra = {"remove_extra_whitespaces": False} if rule == "identity" else {}
    data = trained(words, "bpe", normalization_rule_name=rule, **options, **extra)
    shape = replace(llama(), width=8, hidden=12, num_heads=2, num_kv_heads=1, num_layers=1, vocabulary=420)
    write_folder(tmp_path, build(shape), "llama")
    (tmp_path / "tokenizer.model").write_bytes(data)
    loaded, wanted = load_any(tmp_path), processor(data)
    assert loaded.tokenizers is not None
    many = [*texts(words), "aaaaaaa .....  ------ aababab", "  x", "a\n\nb"]
    assert loaded.tokenizers.source.encode(many) == wanted.encode(many)
    assert loaded.tokenizers.source.prompt([9], 1) == [1, 9]
    for text in many:
        ids = wanted.encode(text)
        assert loaded.tokenizers.source.decode(ids).strip() == wanted.decode(ids).strip()


def field(number: int, value: bytes) -> bytes:
    """With its length, below 128."""
    return bytes([number << 3 | 2, len(value)]) + value


def piece(text: str, score: float = -1.0, kind: int = 1) -> bytes:
    return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind]))


BASE = piece("<unk>", 0.0, 2) + piece("</s>", 0.0, 3) + piece("▁a") + piece("b", -2.0)
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "types"),
    "cut short": (BASE[:-3], "source.spm.*sentencepiece"),
    "a huge length": (b"\x0a" + b"\xff" * 8 + b"\x7f" + b"abc", "source.spm.*sentencepiece"),
    "an endless number": (b"\xff" * 30, "source.spm.*sentencepiece"),
    "an unknown type": (b"\x0b\x01", "source.spm.*sentencepiece"),
    "a piece of nothing": (BASE + piece(""), "piece .*0 characters"),
    "a score that is none": (BASE + piece("c", float("nan")), "score .*nan"),
    "no text": (BASE + field(1, field(1, b"\xff\xfe")), "source.spm.*sentencepiece"),
    "no unknown": (piece("a"), "types"),
    "endless pieces": (b"\x0a\0" * (1 << 19) + b"\x0a\0", "524,289 pieces"),
    "a chosen word": (BASE + piece("c", 0.0, 4), r"types \[4\]"),
    "words alone": (BASE + field(2, b"\x18\x03"), "kind unknown"),
    "a map that is short": (BASE + field(3, field(2, b"\0\1\0\0ab")), "source.spm.*sentencepiece"),
    "only control tokens": (piece("<unk>", 0.0, 2) + piece("</s>", 0.0, 3), "source.spm.*sentencepiece"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_model_is_refused_in_words(name: str, tmp_path: Path) -> None:
    data, message = BAD[name]
    path = tmp_path / "source.spm"
    path.write_bytes(data)
    began = time.perf_counter()
    with pytest.raises(UserError, match=message):
        read_spm(path)
    print(f"\n{name}: refused after {1000 * (time.perf_counter() - began):.1f} ms")


def test_a_model_written_by_hand_is_read(tmp_path: Path) -> None:
    (tmp_path / "source.spm").write_bytes(BASE)
    pieces, library = read_spm(tmp_path / "source.spm")
    assert (library["model"]["type"], pieces[2:]) == ("Unigram", [("▁a", -1.0, 1), ("b", -2.0, 1)])
    with pytest.raises(UserError, match="unigram.*Llama .*bpe"):
        llama_tokenizer(tmp_path / "source.spm", 9)
    (tmp_path / "source.spm").write_bytes(bytes((8 << 20) + 1))
    with pytest.raises(UserError, match="source.spm.* 8,388,608 "):
        read_spm(tmp_path / "source.spm")


def test_damaged_models_cost_no_crash(tmp_path: Path) -> None:
    """Bytes changed at random, most of them in the map of characters: refused, or read and fit for use."""
    data, draw, path = trained(SOURCE, "unigram"), random.Random(2), tmp_path / "source.spm"
    refused = 0
    for _ in range(60):
        spoiled = bytearray(data)
        for _ in range(draw.choice((1, 30, 3000))):
            spoiled[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(bytes(spoiled))
        try:
            _, library = read_spm(path)
        except UserError:
            refused += 1
        else:
            Library.from_str(json.dumps(library)).encode("".join(map(chr, range(32, 0x2FFF))))
    assert 10 < refused < 60


@pytest.mark.parametrize("content", ["", "[]", '{"a": "b"}', '{"a": 0}', '{"<unk>": 0, "</s>": 999}', "[" * 9000])
def test_words_that_are_none_are_refused_in_words(content: str, tmp_path: Path) -> None:
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(BASE)
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(UserError, match="vocab.json"):
        marian_tokenizers(tmp_path, 12)
