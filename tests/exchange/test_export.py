"""Exported folders, used as their README.md says: from text to text as Regard goes, by the folder's files alone."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Library

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig, TokenizerKind
from regard.data.tokenizer import MASK, Tokenizer, Tokenizers
from regard.decode.config import Beam, Greedy, Sample
from regard.errors import UserError
from regard.exchange import export as exporting
from regard.exchange.export import export
from regard.exchange.folders import load_any
from regard.models.build import build
from regard.models.config import BertConfig, GptConfig, ReaderConfig, TransformerConfig
from regard.shapes import Padded
from regard.tasks.folder import Loaded, load_folder, save_model, save_tokenizers
from regard.tasks.labelled.start import reader_for
from tests.exchange.llama2c import stories
from tests.ready import ready
from tests.tasks.toys import EXAMPLES, question_of
from tests.tasks.toys import words as reader_words

KINDS: list[TokenizerKind] = ["bpe", "unigram", "words", "characters"]
SOME = ["bpe", "words", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("unigram", "characters"))]
TEXTS = [
    "Zwei Männer gehen über die Straße.",
    "Two men, they're walking:  3.14 €",
    "日本語 のテキスト",
    "emoji 😀 👩‍👩‍👧 ok",
    "Ünïcödé e\u0301 ﬁ naïve",
    "die Straße und zwei Männer gehen gehen",
    "a completely unheard-of zebra",
]
PAIR: dict[str, Any] = dict(width=24, hidden=20, num_heads=3, encoder_layers=1, decoder_layers=1)
TEXT: dict[str, Any] = dict(width=24, hidden=20, num_heads=4, num_layers=1)
PROMPTS = ["Zwei", "Two men,", "日", "emoji 😀", "Ü", "die Straße und", "the"]
STORIES = Path(__file__).parents[3] / "shared" / "data" / "weights" / "stories260K"
LONGEST = 256  # tokens, as the lines in a README have it


def tokenizer(kind: TokenizerKind, *tags: str, texts: list[str] = TEXTS[:-1]) -> Tokenizer:
    return Tokenizer.train(iter(texts * 3), TokenizerConfig(kind=kind, vocabulary=420), tags)


def kept(folder: Path, config: Any, words: Tokenizers, task: str, search: Any, rows: list[Any]) -> Loaded:
    """A model that knows a few outputs by heart: rows of (source, output)."""
    model = build(config, seed=7)
    steps = torch.optim.Adam(model.parameters(), 0.01)
    sources, targets = (Padded.of([row[side] for row in rows]) for side in (0, 1))
    real = torch.arange(targets.tokens.shape[1])[None] < targets.lengths[:, None]
    for _ in range(120):
        read = [sources] if task == "translation" else []
        start = torch.full((len(rows), 1), model.start)
        logits = model(*read, torch.cat((start, targets.tokens[:, :-1]), 1))
        loss = torch.nn.functional.cross_entropy(logits[real], targets.tokens[real])
        steps.zero_grad()
        loss.backward()
        steps.step()
    folder.mkdir()
    save_tokenizers(folder, words)
    save_model(folder, model, task, search, 400, {})
    return load_folder(folder)


def translator(folder: Path, source: Tokenizer, target: Tokenizer | None = None) -> Loaded:
    """One that answers each text with the next one, and with others in other directions."""
    words = Tokenizers(source, target or source)
    sizes = dict(source_vocabulary=words.sizes[0], target_vocabulary=words.sizes[1])
    tied = dict(tied="none") if target else dict(tied="all", position=PositionConfig(layout="halves"))
    outputs, rows = [[*ids, 2] for ids in words.target.encode(TEXTS)], []
    for shift, tag in enumerate(source.tags or [None], 1):
        rows += [*zip(words.read(TEXTS, tag), outputs[shift:] + outputs[:shift], strict=True)]
    config = TransformerConfig(**PAIR, **sizes, **tied)
    return kept(folder, config, words, "translation", Beam(size=1, max_length=LONGEST), rows)


def teller(folder: Path, words: Tokenizer) -> Loaded:
    shape = dict(placement="pre", norm="rms", bias=False, activation="swiglu")
    config = GptConfig(vocabulary=words.vocabulary, **TEXT, **shape, position=PositionConfig(kind="rotary"))
    rows = [([2], [*ids, 2]) for ids in words.encode(TEXTS, spaced=False)]
    return kept(folder, config, Tokenizers(words, words), "lm", Sample(max_length=LONGEST), rows)


def ours(loaded: Loaded, texts: list[str], tag: str | None = None) -> list[str]:
    search = Greedy(max_length=LONGEST)
    if loaded.task == "translation":
        model = ready(loaded, search=search, engine="torch", tag=tag)
        return [model.tokenizer.decode(best[0].tokens) for best in model.hypotheses(texts)]
    model = ready(loaded, search=search, engine="torch")
    prompts = [ids[1:] for ids in model.prompts(texts)]
    return [model.spell([*a, *b[0].tokens]) for a, b in zip(prompts, model.tell(texts), strict=True)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, TokenizerKind], Loaded]:
    """Each trained once."""
    root, write = tmp_path_factory.mktemp("models"), {"translation": translator, "lm": teller}
    return cache(lambda task, kind: write[task](root / f"{task}-{kind}", tokenizer(kind)))


def lines_of(folder: Path, texts: list[str]) -> str:
    """The code of a README, with other texts."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.S)
    code, count = re.subn(r"^texts = .*$", lambda _: f"texts = {texts!r}", code, flags=re.M)
    assert count == 1
    return str(code)


def run(folder: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the lines of a README print."""
    printed: list[str] = []
    monkeypatch.chdir(folder)
    exec(lines_of(folder, texts), {"print": lambda text: printed.append(str(text))})
    return printed


def shown(texts: list[str], kind: TokenizerKind) -> list[str]:
    """Of sub-words, an unknown means nothing: only a model that learned nothing writes it."""
    return [text.replace("⁇", "") if kind in ("bpe", "unigram") else text for text in texts]


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("form", ["ctranslate2", "onnx", "huggingface"])
@pytest.mark.parametrize("task", ["translation", "lm"])
def test_the_lines_of_the_readme_write_what_regard_writes(
    task: str, form: str, kind: TokenizerKind, models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = models(task, kind)
    told = export(loaded, form, tmp_path / "out")
    assert "8 of 8 texts" in told
    texts = TEXTS if task == "translation" else PROMPTS
    outputs = shown(ours(loaded, texts), kind)
    assert len({*outputs}) > 4, "outputs that all look alike would prove little"
    assert run(tmp_path / "out", texts, monkeypatch) == outputs
    assert f"{len(texts)} of {len(texts)} texts" in export(loaded, form, tmp_path / "again", texts)


def as_documented(folder: Path, texts: list[str]) -> list[str]:
    """CTranslate2 as its documentation uses it: transformers' tokenizer, tokens in and out."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer.convert_ids_to_tokens(tokenizer.encode(text)) for text in texts]
    results = ctranslate2.Translator(str(folder)).translate_batch(rows, beam_size=1)
    ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    return [tokenizer.decode(row, skip_special_tokens=True) for row in ids]


@pytest.mark.parametrize("kind", KINDS)
def test_ctranslate2_knows_every_piece_that_the_tokenizer_gives(
    kind: TokenizerKind, models: Any, tmp_path: Path
) -> None:
    for task, name in (("translation", "shared_vocabulary.json"), ("lm", "vocabulary.json")):
        out = tmp_path / task
        export(models(task, kind), "ctranslate2", out)
        pieces, library = json.loads((out / name).read_text("utf-8")), Library.from_file(str(out / "tokenizer.json"))
        assert [library.id_to_token(i) for i in range(library.get_vocab_size())] == pieces
        theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"))
        assert theirs.convert_ids_to_tokens(range(len(pieces))) == pieces
    loaded = models("translation", kind)
    assert as_documented(tmp_path / "translation", TEXTS) == shown(ours(loaded, TEXTS), kind)


@pytest.mark.parametrize("form", ["ctranslate2", "onnx"])
def test_two_tokenizers_are_two_folders(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = translator(tmp_path / "model", tokenizer("words"), tokenizer("bpe", texts=TEXTS))
    assert "8 of 8" in export(loaded, form, tmp_path / "out")
    assert run(tmp_path / "out", TEXTS, monkeypatch) == shown(ours(loaded, TEXTS), "bpe")
    for side in ("source", "target") if form == "ctranslate2" else ():
        pieces = json.loads((tmp_path / "out" / f"{side}_vocabulary.json").read_text("utf-8"))
        library = Library.from_file(str(tmp_path / "out" / side / "tokenizer.json"))
        assert [library.id_to_token(i) for i in range(library.get_vocab_size())] == pieces


@pytest.mark.parametrize("form", ["ctranslate2", "onnx", "huggingface"])
@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_a_direction_is_written_before_the_text(
    kind: TokenizerKind, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = translator(tmp_path / "model", tokenizer(kind, "de", "fr"))
    assert "8 of 8" in export(loaded, form, tmp_path / "out")
    assert "`<2de>`, `<2fr>`" in (tmp_path / "out" / "README.md").read_text("utf-8")
    outputs = {tag: shown(ours(loaded, TEXTS, tag), kind) for tag in ("de", "fr")}
    assert outputs["de"] != outputs["fr"]
    for tag, expected in outputs.items():
        assert run(tmp_path / "out", [f"<2{tag}> {text}" for text in TEXTS], monkeypatch) == expected


@pytest.mark.parametrize("task", ["translation", "lm"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_writes_the_same_words(task: str, kind: TokenizerKind, models: Any, tmp_path: Path) -> None:
    loaded, texts = models(task, kind), TEXTS if task == "translation" else PROMPTS
    export(loaded, "huggingface", tmp_path / "out")
    search = Greedy(max_length=LONGEST)
    before, after = (ready(each, search=search, engine="torch")(texts) for each in (loaded, load_any(tmp_path / "out")))
    assert after == shown(before, kind)


@pytest.mark.parametrize("form", ["ctranslate2", "onnx", "huggingface"])
def test_new_words_stay_at_home(form: str, tmp_path: Path) -> None:
    loaded = translator(tmp_path / "model", tokenizer("bpe").extended(["zebra"]))
    with pytest.raises(UserError, match=" 1 new word"):
        export(loaded, form, tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(("spoiled", "message"), [("reads", "tokenizers .*Regard"), ("writes", "Ġmen.*Regard")])
def test_a_tokenizer_that_reads_or_writes_otherwise_is_not_exported(
    spoiled: str, message: str, models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = exporting.write_tokenizer

    def spoil(folder: Path, *given: Any, **options: Any) -> None:
        write(folder, *given, **options)
        content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        content["normalizer" if spoiled == "reads" else "decoder"] = None
        (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")

    monkeypatch.setattr(exporting, "write_tokenizer", spoil)
    for form in ("ctranslate2", "onnx", "huggingface"):
        with pytest.raises(UserError, match=message):
            export(models("translation", "bpe"), form, tmp_path / "out", TEXTS)
        assert not any(tmp_path.iterdir())


def test_a_fresh_python_runs_the_lines_without_regard(models: Any, tmp_path: Path) -> None:
    loaded = models("translation", "bpe")
    for form in ("ctranslate2", "onnx", "huggingface"):
        export(loaded, form, tmp_path / form)
        code = f"import sys; sys.modules['regard'] = None\n{lines_of(tmp_path / form, TEXTS)}"
        done = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", code], cwd=tmp_path / form, capture_output=True, check=True
        )
        assert done.stdout.decode().splitlines() == shown(ours(loaded, TEXTS), "bpe")


def encoder(folder: Path, kind: TokenizerKind) -> Loaded:
    words, position = tokenizer(kind, MASK), PositionConfig(kind="learned", max_length=400)
    config = BertConfig(vocabulary=words.vocabulary, width=24, hidden=20, num_heads=4, num_layers=1, position=position)
    folder.mkdir()
    save_tokenizers(folder, Tokenizers(words, words))
    save_model(folder, build(config, seed=2), "mlm", Greedy(), 300, {})
    return load_folder(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_an_encoder_are_the_same(
    kind: TokenizerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, texts = encoder(tmp_path / "model", kind), [*TEXTS, "die [MASK] und [MASK]s", "[MASK] Männer "]
    export(loaded, "huggingface", tmp_path / "out")
    vectors = ready(loaded).embed(texts).tolist()
    for found, vector in zip(run(tmp_path / "out", texts, monkeypatch), vectors, strict=True):
        assert json.loads(found) == pytest.approx(vector, abs=1e-5)  # float32 on both sides


@pytest.mark.parametrize("question", ["classification", "pairs", "regression", "choice", "tagging", "spans"])
def test_the_answers_of_a_reader_are_the_same(question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, position = reader_words(), PositionConfig(kind="learned", max_length=60)
    trunk = BertConfig(width=12, hidden=20, num_heads=3, num_layers=2, position=position)
    config = reader_for(ReaderConfig(trunk=trunk), question_of(question), words, None, EXAMPLES[question])
    (tmp_path / "model").mkdir()
    save_tokenizers(tmp_path / "model", Tokenizers(words, words))
    save_model(tmp_path / "model", build(config, seed=2), config.question, Greedy(), 60, {})
    loaded = load_folder(tmp_path / "model")
    assert " 8 texts" in export(loaded, "huggingface", tmp_path / "out")
    joined = " " if question == "tagging" else "\t"
    texts = [joined.join(example.texts) for example in EXAMPLES[question] if all(example.texts)]
    for said, answer in zip(run(tmp_path / "out", texts, monkeypatch), ready(loaded)(texts), strict=True):
        if question == "regression":
            assert float(said) == pytest.approx(answer.said, abs=1e-5)
        else:
            assert said == (" ".join(answer.said) if question == "tagging" else str(answer.said))


def test_a_prepared_folder_says_how_it_is_run(models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = models("translation", "bpe")
    export(loaded, "native", tmp_path / "out", TEXTS, "float32")
    assert "`regard run FOLDER < input.txt`" in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert run(tmp_path / "out", TEXTS, monkeypatch) == ready(loaded)(TEXTS)


@pytest.mark.skipif(not STORIES.is_dir(), reason="there is no ../shared/data")
@pytest.mark.parametrize("form", ["ctranslate2", "onnx", "huggingface"])
def test_a_model_of_another_tool_goes_on_as_text(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, texts = stories(STORIES), ["Once upon a time", "Lily's  two"]
    assert "2 of 2" in export(loaded, form, tmp_path / "out", texts)
    told = run(tmp_path / "out", texts, monkeypatch)
    assert told[0].startswith("Once upon a time, there was a little girl named Lily. She loved to play outside")
    assert told[1].startswith(texts[1])


@pytest.mark.parametrize("task", ["translation", "lm"])
def test_one_text_alone_is_not_read_letter_by_letter(task: str, models: Any) -> None:
    model, text = ready(models(task, "bpe"), engine="torch", search=Greedy(max_length=9)), TEXTS[0]
    if task == "translation":
        for use in (model.hypotheses, model.translate, lambda texts: model.score(texts, texts)[0].tolist()):
            assert use(text) == use([text])
        assert [told.source for told in model.explain(text)] == model.tokenizers.read([text])
    else:
        for use in (
            model.tell,
            model.score,
            model.prompts,
            model.answer,
            lambda texts: model.choose(texts, ["a", "b"]),
        ):
            assert use(text) == use([text])
        assert model(text, stop="Männer") == model(text, stop=["Männer"])


def test_one_text_alone_is_one_vector(tmp_path: Path) -> None:
    model = ready(encoder(tmp_path / "model", "bpe"))
    assert model.embed(TEXTS[0]).tolist() == model.embed(TEXTS[:1]).tolist()
    assert model.fill("zwei [MASK]") == model.fill(["zwei [MASK]"])
