"""Folders prepared for the native engine: what they say, what they refuse, and that they need no torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.main import export
from regard.data.config import TokenizerConfig
from regard.data.store import build as build_store
from regard.data.tokenizer import Tokenizer, Tokenizers
from regard.decode.config import Beam, Sample
from regard.engine.build import compiler
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentConfig, TransformerConfig
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from tests.ready import ready

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
TEXTS = ["a cat sees a dog", "the dog sleeps", "a bird", "the cat sees the bird and the dog"]


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A model that was trained on nothing, with the pairs that it would have been trained on."""
    words = Tokenizer.train(iter(TEXTS * 3), TokenizerConfig(kind="bpe", vocabulary=300))
    size = words.vocabulary
    config = TransformerConfig(
        source_vocabulary=size, target_vocabulary=size, width=32, hidden=48, num_heads=4, encoder_layers=2,
        decoder_layers=2, placement="pre", tied="all",
    )  # fmt: skip
    folder = tmp_path / "model"
    folder.mkdir()
    save_tokenizers(folder, Tokenizers(words, words))
    save_model(folder, build(config, 3), "translation", Beam(size=3, max_length=9), 40, {})
    ids = words.encode(TEXTS)
    build_store(folder / "store", ((words.framed(row), row) for row in ids), vocabulary=size)
    return folder


def test_a_prepared_folder_says_what_the_model_says(translator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for precision in ("float32", "int8"):
        out = translator.with_name(precision)
        export(translator, out, "native", None, precision)
        assert precision in capsys.readouterr().err
    reference = ready(load_folder(translator), engine="torch")
    exact, small = (ready(load_folder(translator.with_name(name))) for name in ("float32", "int8"))
    assert exact(TEXTS) == reference(TEXTS)
    assert len(small(TEXTS)) == len(TEXTS)
    assert "native, int8" in small.engine.about
    for name in ("float32", "int8"):
        assert (translator.with_name(name) / "native.safetensors").stat().st_size > 0
    sizes = [(translator.with_name(name) / "native.safetensors").stat().st_size for name in ("float32", "int8")]
    assert sizes[1] < 0.5 * sizes[0]
    with pytest.raises(UserError, match="/float32.*native"):
        exact.attend(TEXTS[0])
    with pytest.raises(UserError, match="/int8.*native"):
        ready(load_folder(translator.with_name("int8")), engine="torch")(TEXTS[0])


def test_it_runs_where_there_is_no_torch(translator: Path, tmp_path: Path) -> None:
    out, text = translator.with_name("small"), tmp_path / "text"
    export(translator, out, "native", None, "int8")
    text.write_text("".join(f"{line}\n" for line in TEXTS))
    code = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'regard'; from regard.cli.main import main; main()"
    for folder, options in ((out, []), (translator, ["--engine", "native"])):
        command = [sys.executable, "-c", code, "run", str(folder), str(text), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.count("\n") == len(TEXTS)
        assert re.search("engine.* native", done.stderr)


def test_what_it_cannot_have_is_said(translator: Path, tmp_path: Path) -> None:
    words = load_folder(translator).tokenizers
    assert words is not None
    folder = tmp_path / "recurrent"
    folder.mkdir()
    size = words.source.vocabulary
    config = RecurrentConfig(source_vocabulary=size, target_vocabulary=size, width=16, embedding=8)
    save_tokenizers(folder, words)
    save_model(folder, build(config), "translation", Beam(), 40, {})
    with pytest.raises(UserError, match=r"native .*model\.kind: recurrent"):
        export(folder, tmp_path / "out", "native", None, "int8")
    with pytest.raises(UserError, match=r"native .*model\.kind: recurrent"):
        ready(load_folder(folder), engine="native")(TEXTS[0])
    assert ready(load_folder(folder)).engine.about == "torch, float32"
    with pytest.raises(UserError, match="`engine` fast.*auto, torch, native"):
        ready(load_folder(folder), engine="fast")(TEXTS[0])
    with pytest.raises(UserError, match="`precision` int4.*int8 .*float32"):
        export(translator, tmp_path / "out", "native", None, "int4")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("damage", "told"),
    [("cut", "native.safetensors.*header"), ("order", "native.safetensors.*sha256"), ("lies", "48 x 32.* 4800 x 32")],
)
def test_a_damaged_folder_is_refused(translator: Path, damage: str, told: str) -> None:
    out = translator.with_name("out")
    export(translator, out, "native", None, "int8")
    path, config = out / "native.safetensors", out / "config.json"
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "order":
        path.write_bytes(data.replace(b'"order":"0 1', b'"order":"1 0'))
    else:
        config.write_text(config.read_text().replace('"hidden": 48', '"hidden": 4800').replace('"sha256"', '"was"'))
    with pytest.raises(UserError, match=told):
        ready(load_folder(out))(TEXTS[0])


def test_a_language_model_goes_on_with_prompts(translator: Path, tmp_path: Path) -> None:
    words = load_folder(translator).tokenizers
    assert words is not None
    folder, out = tmp_path / "teller", tmp_path / "prepared"
    folder.mkdir()
    config = GptConfig(vocabulary=words.source.vocabulary, width=32, hidden=48, num_heads=4, num_layers=2)
    save_tokenizers(folder, words)
    save_model(folder, build(config, 1), "lm", Sample(max_length=12, seed=5), 40, {})
    export(folder, out, "native", None, "float32")
    reference, found = ready(load_folder(folder), engine="torch"), ready(load_folder(out))
    assert found(TEXTS) == reference(TEXTS)
    assert found(TEXTS, stop=["a"]) == reference(TEXTS, stop=["a"])
