"""Models that travel: out to other tools, checked there, and back."""

import json
import re
from pathlib import Path

import pytest

from regard import load
from tests.training.toy import regard, write_corpus, write_recipe

FORMATS = {"huggingface": "transformers", "ctranslate2": "CTranslate2", "onnx": "onnxruntime"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    regard("train", write_recipe(folder, steps=120), "--out", folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def teller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teller")
    write_corpus(folder)
    (folder / "text.txt").write_text((folder / "train.src").read_text("utf-8") * 4, "utf-8")
    small = ["--set", "model.width=16", "--set", "model.num_layers=1", "--set", "model.hidden=24"]
    steps = ["--set", "train.steps=60", "--set", "train.minutes=null", "--set", "data.context=16"]
    told = regard("train", "--text", folder / "text.txt", "--out", folder / "run", *small, *steps).stderr.decode()
    assert re.search("sub-words.* 10.0%", told)
    return folder / "run"


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_is_checked_on_the_spot_and_says_so(kind: str, model: Path, teller: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.write_text("rot blau\n\ngelb\nweiß grün rot\n", "utf-8")
    for number, folder in enumerate((model, teller)):
        out = tmp_path / str(number)
        told = regard("export", folder, out, "--to", kind).stderr.decode()
        assert re.search(f"8 of 8 .*{FORMATS[kind]}", told)
        told = regard("export", folder, tmp_path / f"{number}-texts", "--to", kind, "--texts", texts).stderr.decode()
        assert "3 of 3" in told
        assert str(out) in regard("export", folder, out, "--to", kind, code=2).stderr.decode()
        assert (out / "tokenizer.json").exists()


def test_what_went_out_says_the_same_there_and_comes_back(model: Path, teller: Path, tmp_path: Path) -> None:
    import transformers as hf

    lines = "rot blau gelb\nweiß schwarz\n"
    for name, folder, kind in (("pair", model, hf.AutoModelForSeq2SeqLM), ("text", teller, hf.AutoModelForCausalLM)):
        out, back = tmp_path / name, tmp_path / f"{name}-back"
        regard("export", folder, out, "--to", "huggingface")
        theirs, words = kind.from_pretrained(out), hf.AutoTokenizer.from_pretrained(out)
        ids = words("rot blau gelb", return_tensors="pt")
        how = {"do_sample": False, "num_beams": 1, "max_new_tokens": 9, "pad_token_id": 2}
        said = theirs.generate(input_ids=ids["input_ids"], attention_mask=ids["attention_mask"], **how)[0].tolist()
        text = words.decode(said[len(ids["input_ids"][0]) if name == "text" else 0 :], skip_special_tokens=True)
        asked = ["--beam", 1, "--max-tokens", 9]
        ours = regard("run", folder, *asked, stdin=lines.encode()).stdout
        assert ours.decode().split("\n")[0].split() == text.split()
        assert str(back) in regard("import", out, back).stderr.decode()
        assert regard("run", back, *asked, stdin=lines.encode()).stdout == ours
        assert regard("run", out, *asked, stdin=lines.encode()).stdout == ours
        assert re.search(rf"{back.name}\b.* {name}\b", (back / "README.md").read_text("utf-8"))
        assert str(back) in regard("import", out, back, code=2).stderr.decode()


def test_what_cannot_travel_is_told(model: Path, tmp_path: Path) -> None:
    refused = regard("export", model, tmp_path / "x", "--to", "tf", code=2).stderr.decode()
    assert re.search("--to tf.*native, huggingface", refused)
    assert not (tmp_path / "x").exists()
    refused = regard("export", model, tmp_path / "x", "--to", "onnx", "--texts", "/dev/null", code=2).stderr.decode()
    assert re.search("/dev/null.*--texts", refused)
    described = json.loads((model / "config.json").read_text("utf-8"))
    assert described["format"] == "regard"
    assert "model_type" in regard("import", model, tmp_path / "y", code=2).stderr.decode()
    file = tmp_path / "model.pt"
    file.write_bytes(b"x")
    assert str(file) in regard("import", file, tmp_path / "y", code=2).stderr.decode()


def test_a_language_model_goes_on_with_lines_and_scores_them(teller: Path, tmp_path: Path) -> None:
    done = regard("run", teller, "--beam", 1, "--max-tokens", 6, stdin=b"rot\n\nblau\n")
    out = done.stdout.decode().split("\n")
    assert (len(out), out[1]) == (4, "")
    prompt = regard("run", teller, "--beam", 1, "--max-tokens", 6, "--prompt", "rot").stdout.decode()
    assert " ".join(prompt.split()) == " ".join(f"rot{out[0]}".split())
    scored = regard("run", teller, "--score", "--json", stdin="rot grün\n".encode()).stdout
    ours = load(teller)
    assert json.loads(scored)["log_prob"] == pytest.approx(ours.score(["rot grün"])[0][0], abs=1e-6)
    text = tmp_path / "held.txt"
    text.write_text("rot grün blau\n" * 9, "utf-8")
    found = json.loads(regard("evaluate", teller, "--text", text, "--json").stdout)
    assert found["word_perplexity"] == pytest.approx(2.718281828459045 ** (found["loss"] * found["tokens"] / 36))
    assert re.search("/dev/null.*empty", regard("evaluate", teller, "--text", "/dev/null", code=2).stderr.decode())
