"""What a newcomer meets: two files and nothing else, check, init, doctor, and alignments."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.data.config import DataConfig, PairsConfig
from regard.recipe import parse
from regard.tasks.translation.config import TranslationRecipe as Recipe
from regard.tasks.translation.prepare import exchanged
from regard.tasks.translation.starter import Side, starter
from tests.training.toy import regard, write_corpus, write_recipe


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    regard("train", write_recipe(folder, steps=60), "--out", folder / "run")
    return folder / "run"


SENTENCES = [f"word{i} and word{i % 997} are said in sentence {i % 89}" for i in range(2000)]
WORDS = [f"word{i}" for i in range(2000)]
PHONES = [" ".join("PTKBDG"[(i * k) % 6] for k in range(1, 6)) for i in range(2000)]


def test_lines_are_seen_as_sentences_words_or_a_notation() -> None:
    assert [Side.of(texts).kind for texts in (SENTENCES, WORDS, PHONES)] == ["bpe", "characters", "words"]


def test_few_sentences_of_few_words_are_no_notation() -> None:
    assert Side.of(["a b c"] * 3).kind == "bpe"


def test_a_recipe_is_made_for_what_is_there(tmp_path: Path) -> None:
    for name, texts in (("words", WORDS), ("phones", PHONES), ("said", SENTENCES)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", "utf-8")

    def made(source: str, target: str) -> Recipe:
        pairs = PairsConfig(source=str(tmp_path / source), target=str(tmp_path / target))
        chosen, told = starter(pairs, None, 8)
        assert "2,000 pairs" in told[0]
        return parse(Recipe, json.dumps(chosen), "test")

    pronounce, translate = made("words", "phones"), made("said", "said")
    assert pronounce.data.tokenizer.kind == "characters"
    assert pronounce.data.target_tokenizer is not None
    assert pronounce.data.target_tokenizer.kind == "words"
    assert pronounce.train.metric == "exact_match"
    assert (pronounce.model.kind, translate.model.kind) == ("recurrent", "transformer")
    assert translate.data.target_tokenizer is None
    assert (translate.data.hold_out, translate.train.minutes) == (0.1, 8)


def test_two_files_are_enough(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.tgt")
    small = [f"--set=model.{key}=1" for key in ("encoder_layers", "decoder_layers")]
    done = regard("train", *files, "--minutes", 0.02, *small, "--out", tmp_path / "run").stderr.decode()
    assert "180 pairs" in done
    assert "10.0%" in done
    sources, targets = ((tmp_path / "run" / f"valid.{side}").read_text("utf-8") for side in ("source", "target"))
    assert len(sources.splitlines()) == len(targets.splitlines()) > 0
    trained = (tmp_path / "train.src").read_text("utf-8").splitlines()
    assert f" {sum(line not in sources.splitlines() for line in trained)} pairs" in done


def test_check_names_every_problem_by_file_and_line(tmp_path: Path) -> None:
    source = ["one two", "", "the same", "one two", "три слова тут", "a " * 60, "fine"]
    target = ["eins zwei", "leer", "the same", "eins zwei", "drei Wörter hier", "b", "gut"]
    for name, texts in (("a", source), ("b", target), ("va", ["fine", "new"]), ("vb", ["gut", "neu"])):
        (tmp_path / name).write_text("\n".join(texts) + "\n", "utf-8")
    files = [f"--{name}={tmp_path / file}" for name, file in (("source", "a"), ("target", "b"))]
    files += [f"--valid-{name}={tmp_path / file}" for name, file in (("source", "va"), ("target", "vb"))]
    done = json.loads(regard("check", *files, "--minutes", 0.01, "--json").stdout)
    a, va = str(tmp_path / "a"), str(tmp_path / "va")
    wanted = {"empty": [a, 2], "same": [a, 3], "before": [a, 4], "5": [a, 6], "cyrillic": [a, 5], "trained": [va, 1]}
    assert len(done["problems"]) == len(wanted)
    for word, place in wanted.items():
        assert [places for problem, places in done["problems"].items() if word in problem] == [[place]]
    assert "GiB" in done["memory"]


@pytest.mark.parametrize(
    ("target", "told"),
    [(b"eins\n", "{a}, line 2"), (b"eins\n\xffzwei\n", "UTF-8.*{b}, line 2"), (b"\0eins\nzwei\n", "NUL.*{b}, line 1")],
)
def test_check_ends_with_2_where_training_would(tmp_path: Path, target: bytes, told: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"one\ntwo\n")
    b.write_bytes(target)
    assert re.search(told.format(a=a, b=b), regard("check", "--source", a, "--target", b, code=2).stdout.decode())


def test_init_prints_a_recipe_that_is_read() -> None:
    recipe = parse(Recipe, regard("init").stdout.decode(), "init")
    assert recipe.data.hold_out == 0.02
    assert re.search("'cooking'.*translation", regard("init", "cooking", code=2).stderr.decode())


def test_doctor_tells_what_is_there() -> None:
    told = {entry["name"]: entry for entry in json.loads(regard("doctor", "--json").stdout)}
    assert told["torch"]["value"].startswith("2.")
    assert {"sacrebleu", "tensorboard", "memory"} < set(told)


def test_the_head_that_aligns_best_is_found_kept_and_used(model: Path, tmp_path: Path) -> None:
    """Gold links that one head would give are met by that head without an error."""
    files = [f"--{name}={model.parent / file}" for name, file in (("source", "valid.src"), ("target", "valid.tgt"))]
    gold, links = tmp_path / "gold", tmp_path / "links"
    lengths = [len(line.split()) for line in (model.parent / "valid.src").read_text("utf-8").splitlines()]
    gold.write_text("".join(" ".join(f"{n - 1 - i}-{i}" for i in range(n)) + "\n" for n in lengths), "utf-8")
    regard("evaluate", model, *files, "--alignment", gold, "--output", links)
    assert len(links.read_text("utf-8").splitlines()) == len(lengths)
    done = json.loads(regard("evaluate", model, *files, "--alignment", links, "--choose-head", "--json").stdout)
    assert done["alignment_error_rate"] == 0
    kept = json.loads((model / "alignment.json").read_text("utf-8"))
    assert kept["site"] == done["site"] == "decoder.0.cross"
    again = regard("evaluate", model, *files, "--alignment", links).stdout.decode()
    assert again.startswith("alignment error rate 0.0000   decoder.0.cross")
    text, pharaoh = regard("run", model, "--alignment", stdin=b"rot blau\n").stdout.decode().split(" ||| ")
    assert {int(link.split("-")[1]) for link in pharaoh.split()} == set(range(len(text.split())))
    wrong = tmp_path / "wrong"
    wrong.write_text("0-99\n" * len(lengths), "utf-8")
    refused = regard("evaluate", model, *files, "--alignment", wrong, code=2)
    assert re.search("line 1 .*0-99", refused.stderr.decode())


def test_pronunciations_count_the_nearest_of_several_ways(model: Path, tmp_path: Path) -> None:
    """Every word may be said as the model says it, or in another way, but for the first, which has only the other."""
    words = ["rot", "blau grün", "gelb"]
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in words), "utf-8")
    said = regard("run", model, tmp_path / "words").stdout.decode().splitlines()
    ways = ["nie\n", *(f"nie\t{way}\n" for way in said[1:])]
    (tmp_path / "ways").write_text("".join(ways), "utf-8")
    files = ("--source", tmp_path / "words", "--target", tmp_path / "ways")
    told = json.loads(regard("evaluate", model, *files, "--pronunciations", "--json").stdout)
    assert regard("evaluate", model, *files, "--pronunciations").stdout.decode().split()[:2] == ["words", "3"]
    assert told["word_error_rate"] == pytest.approx(1 / 3)
    phones = [len(text.split()) for text in said]
    assert told["phone_error_rate"] == pytest.approx(max(phones[0], 1) / (1 + sum(phones[1:])))


def test_validation_files_that_changed_places_are_told(tmp_path: Path) -> None:
    for name, words in (("en", "the cat sees a dog"), ("de", "die Katze sieht einen Hund")):
        for part in ("train", "valid"):
            (tmp_path / f"{part}.{name}").write_text(f"{words}\n" * 30, "utf-8")
    for side, other, wrong in (("en", "de", False), ("de", "en", True)):
        valid = PairsConfig(source=str(tmp_path / f"valid.{side}"), target=str(tmp_path / f"valid.{other}"))
        train = PairsConfig(source=str(tmp_path / "train.en"), target=str(tmp_path / "train.de"))
        assert exchanged(DataConfig(train=(train,), valid=(valid,))) == wrong


def test_a_missing_torch_is_told_with_the_way_to_get_it() -> None:
    code = "import sys; sys.modules['torch'] = None; from regard.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "train", "recipe.yaml"], capture_output=True, check=False)
    assert done.returncode == 2
    assert re.match(rb"regard: torch .*'regard\[train\]'", done.stderr)


def test_a_model_whose_training_goes_on_says_so(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "run")
    assert str(tmp_path / "run").encode() not in regard("run", tmp_path / "run", stdin=b"rot\n").stderr
    (tmp_path / "run" / "README.md").unlink()
    assert str(tmp_path / "run").encode() in regard("run", tmp_path / "run", stdin=b"rot\n").stderr
