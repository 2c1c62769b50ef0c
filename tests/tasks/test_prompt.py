"""Prompting: labels by brute force, calibration by hand, examples that fit and those that do not, lines in and out."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig
from regard.data.tokenizer import ForeignTokenizer, Tokenizer, Tokenizers
from regard.decode.config import Beam, Greedy, Sample
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentConfig, RecurrentTextConfig
from regard.tasks.folder import Loaded, save_model, save_tokenizers
from regard.tasks.lm.prompt import NOTHING, Prompter
from regard.tasks.lm.runtime import Generator
from regard.tasks.translation.runtime import Translator
from tests.training.toy import regard

SHOTS = [("so good", "yes"), ("so ill", "no"), ("a {answer} ☃", "yes")]
TEXTS = ["as good as {input}", "ill", "é", "no end\\n of it", "bad"]
LABELS = ["yes", "no", "nobody"]
TEMPLATE = "Is {input} well? {answer}."
LEARNED = ["Is it well? yes, no, nobody. [MASK] N/A\n\n", *(a + b for a, b in SHOTS), *TEXTS] * 3


def tokenizer(kind: str) -> Tokenizer:
    if kind != "foreign":
        return Tokenizer.train(iter(LEARNED), TokenizerConfig(kind=kind, vocabulary=320, normalise="none"))  # type: ignore[arg-type]
    library = tokenizer("bpe").content()["tokenizer"]
    return ForeignTokenizer(library, {}, 320)  # like GPT-2's: no mark before a text


def teller(model: str = "gpt", words: str = "characters", max_length: int = 500, **options: Any) -> Generator:
    chosen, start = tokenizer(words), 2
    sizes: dict[str, Any] = {"vocabulary": chosen.vocabulary, "start": start}
    config: Any = RecurrentTextConfig(embedding=6, width=8, **sizes)
    if model != "recurrent":
        kind: Any = {"gpt": "rotary"}.get(model, model)
        position = PositionConfig(kind=kind, max_length=max_length if kind == "learned" else None)
        config = GptConfig(width=8, hidden=12, num_heads=2, num_layers=2, position=position, **sizes)
    net = build(config, 3).double()
    for p in net.parameters():
        p.data *= 3  # so that words differ
    both = Tokenizers(chosen, chosen)
    loaded = Loaded("lm", config, both, Sample(max_length=6), max_length, "", lambda: net, _none, Path())
    return Generator(loaded, engine="torch", threads=1, **options)


def _none() -> Any:
    raise AssertionError("nothing native here")


def prompt_of(text: str, shots: list[tuple[str, str]]) -> str:
    return "".join(f"Is {given} well? {answer}.\n\n" for given, answer in shots) + f"Is {text} well?"


@torch.no_grad()
def brute(model: Generator, prompt: str, label: str) -> float:
    """The log-probability of what a label adds to a prompt, token by token, each from all before it."""
    plain, whole = (
        model.tokenizer.prompt(ids, model.start)
        for ids in model.tokenizer.encode([prompt, f"{prompt} {label}"], spaced=False)
    )
    first = next(i for i in range(len(whole)) if whole[: i + 1] != plain[: i + 1])
    if first == 0:
        whole, first = [model.start, *whole], 1
    found = 0.0
    for i in range(first, len(whole)):
        found += float(model.model(torch.tensor([whole[:i]]))[0, -1].log_softmax(-1)[whole[i]])
    return found


def normal(log_probs: list[float]) -> list[float]:
    whole = sum(math.exp(x) for x in log_probs)
    return [math.exp(x) / whole for x in log_probs]


@pytest.mark.parametrize("words", ["characters", "bpe", "unigram", "words", "foreign"])
@pytest.mark.parametrize("kind", ["gpt", "learned", "recurrent"])
def test_labels_are_as_likely_as_token_by_token(kind: str, words: str) -> None:
    model, labels = teller(kind, words), LABELS[:2] if words == "words" else LABELS
    found = model.choose(TEXTS, labels, examples=SHOTS, template=TEMPLATE, calibrated=False)
    assert [len(choices) for choices in found] == [len(labels)] * len(TEXTS)
    for text, choices in zip(TEXTS, found, strict=True):
        wanted = [brute(model, prompt_of(text, SHOTS), label) for label in labels]
        said = {choice.label: choice for choice in choices}
        assert [said[label].log_prob for label in labels] == pytest.approx(wanted, abs=1e-10)
        assert [said[label].probability for label in labels] == pytest.approx(normal(wanted), abs=1e-10)
        assert choices == sorted(choices, key=lambda choice: -choice.probability)


def test_a_label_may_follow_an_empty_prompt() -> None:
    model = teller("learned", "foreign")
    found = Prompter(model, (), "{input} {answer}", LABELS).choose(["a"])
    nothing = [normal([brute(model, text, label) for label in LABELS]) for text in NOTHING]
    said = normal([brute(model, "a", label) for label in LABELS])
    divided = [p / sum(column) for p, column in zip(said, zip(*nothing, strict=True), strict=True)]
    wanted = {label: p / sum(divided) for label, p in zip(LABELS, divided, strict=True)}
    assert {choice.label: choice.probability for choice in found[0]} == pytest.approx(wanted, abs=1e-10)


def test_a_label_may_be_lost_in_what_precedes_it() -> None:
    vocab = {name: i for i, name in enumerate(["<unk>", "a", "b"])}
    library = {"model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>", "fuse_unk": True}}
    model = teller("gpt", "characters")
    both = Tokenizers(*[ForeignTokenizer(library, {0: "<unk>"}, 3)] * 2)
    model = Generator(replace(model.loaded, tokenizers=both), engine="torch", threads=1)
    (found,) = model.choose(["é"], ["ü", "ab"], template="{input}{answer}", calibrated=False)
    with torch.no_grad():
        told = model.model(torch.tensor([[2, 0, 1]]))[0].log_softmax(-1)
    lost, kept = float(told[0, 0]), float(told[0, 0] + told[1, 1] + told[2, 2])
    assert {choice.label: choice.log_prob for choice in found} == pytest.approx({"ü": lost, "ab": kept}, abs=1e-10)


@pytest.mark.parametrize("kind", ["gpt", "recurrent"])
def test_what_is_said_to_nothing_is_divided_out(kind: str) -> None:
    model = teller(kind, "bpe")
    (found,) = model.choose(["ill"], LABELS, examples=SHOTS, template=TEMPLATE)
    nothing = [normal([brute(model, prompt_of(text, SHOTS), label) for label in LABELS]) for text in NOTHING]
    mean = [sum(column) / 3 for column in zip(*nothing, strict=True)]
    said = [brute(model, prompt_of("ill", SHOTS), label) for label in LABELS]
    divided = [p / q for p, q in zip(normal(said), mean, strict=True)]
    told = {choice.label: choice for choice in found}
    assert [told[label].probability for label in LABELS] == pytest.approx(
        [p / sum(divided) for p in divided], abs=1e-10
    )
    assert [told[label].log_prob for label in LABELS] == pytest.approx(said, abs=1e-10)  # as it was said


@pytest.mark.parametrize("kind", ["gpt", "recurrent"])
def test_what_else_is_in_the_batch_does_not_matter(kind: str) -> None:
    texts = [*TEXTS, "", *(text[::-1] for text in TEXTS), " \t"]
    one, many = (
        teller(kind, "bpe", batch_size=size).choose(texts, LABELS, examples=SHOTS, template=TEMPLATE) for size in (1, 4)
    )
    assert one[len(TEXTS)] == many[-1] == []
    for alone, together in zip(one, many, strict=True):
        assert [choice.label for choice in alone] == [choice.label for choice in together]
        assert [choice[1:] for choice in alone] == [pytest.approx(choice[1:], abs=1e-12) for choice in together]


def size(model: Generator, text: str, shots: list[tuple[str, str]]) -> int:
    return max(len(model.tokenizer.encode([f"{prompt_of(text, shots)} {label}"], spaced=False)[0]) for label in LABELS)


def test_the_oldest_examples_go_until_the_rest_fits() -> None:
    shots = [(f"day {n} so {'x' * (n % 4)}", "yes") for n in range(40)]
    model, warned = teller("learned", "bpe", max_length=300), list[str]()
    prompter = Prompter(model, shots, TEMPLATE, LABELS, warn=warned.append)
    texts = ["ill", "ill " * 20, "", "ill " * 40]
    found = prompter.choose(texts, calibrated=False, first=5)
    kept = [next(n for n in range(40, -1, -1) if size(model, text, shots[40 - n :]) + 1 <= 300) for text in texts]
    assert kept[0] > kept[1] > kept[3] > 0
    for text, n, choices in zip(texts, kept, found, strict=True):
        wanted = {label: brute(model, prompt_of(text, shots[40 - n :]), label) for label in LABELS}
        if text:
            assert {choice.label: choice.log_prob for choice in choices} == pytest.approx(wanted, abs=1e-10)
    prompter.choose(texts)
    assert len(warned) == 1
    assert re.search(rf"\b{kept[0]} .*40 examples.*line 5\b", warned[0])
    with pytest.warns(UserWarning, match=r"40 examples.*line 1\b"):
        model.choose(["ill"], LABELS, examples=shots, template=TEMPLATE)


def test_only_an_input_that_does_not_fit_alone_is_cut_and_that_is_told() -> None:
    model, warned = teller("learned", "characters", max_length=30), list[str]()
    prompter = Prompter(model, SHOTS, TEMPLATE, LABELS, warn=warned.append)
    found = prompter.choose(["x", "so ill " * 9], calibrated=False, first=7)[1]
    told = {choice.label: choice.log_prob for choice in found}
    longest = max(LABELS, key=len)
    text = prompt_of("so ill " * 9, [])[-(30 - len(longest) - 1) :]
    ids = model.tokenizer.encode([f"{text} {longest}"], spaced=False)[0]
    with torch.no_grad():
        wanted = model.model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    assert told[longest] == pytest.approx(float(wanted[-len(longest) - 1 :].sum()), abs=1e-10)
    assert [bool(re.search("line 8 .* 30 ", line)) for line in warned if "examples" not in line] == [True]
    tight = teller("learned", "characters", max_length=len(prompt_of("", [])) + len(longest) + 3)
    assert tight.choose(["x"], LABELS, template=TEMPLATE)  # where "N/A" and "[MASK]" are cut too
    recurrent = teller("recurrent", "characters", max_length=30)  # reads on and on
    (choices,) = recurrent.choose(["so ill " * 9], LABELS, examples=SHOTS, template=TEMPLATE, calibrated=False)
    wanted_there = brute(recurrent, prompt_of("so ill " * 9, SHOTS), choices[0].label)
    assert choices[0].log_prob == pytest.approx(wanted_there, abs=1e-10)


@pytest.mark.parametrize("kind", ["gpt", "recurrent"])
def test_answers_are_what_follows_the_prompt_up_to_the_line_s_end(kind: str) -> None:
    model = teller(kind, "characters")
    texts = [TEXTS[0], "", TEXTS[1]]
    found = model.answer(texts, examples=SHOTS)
    prompts = ["".join(f"{a}\n{b}\n\n" for a, b in SHOTS) + f"{text}\n" for text in texts]
    told = model.tell([prompts[0], prompts[2]], search=Greedy(max_length=6))
    first, last = (model.text(hypotheses[0]).split("\n")[0].strip() for hypotheses in told)
    assert found == [first, "", last]
    assert any(found)
    asked = Generator(model.loaded, engine="torch", threads=1, search=Beam(size=3, max_length=2))
    ((best, *_),) = asked.tell([prompts[0]])
    assert asked.answer(texts[:1], examples=SHOTS) == [asked.text(best).split("\n")[0].strip()]
    prompter = Prompter(model, SHOTS, TEMPLATE)
    assert prompter.prompts(["a {answer}"]) == [prompt_of("a {answer}", SHOTS)]
    assert prompter.stop == ["\n", "."]


@pytest.mark.parametrize(
    ("labels", "template", "told"),
    [
        (["yes"], None, "labels.*'yes'"),
        ([], None, "labels"),
        (["yes", " "], None, "labels.*'yes', ' '"),
        (["yes", "n\no"], None, r"labels.*'yes', 'n\\no'"),
        (["yes", "no", "yes"], None, "label 'yes'"),
        (["yes", "文", "本"], None, "'本'.*'文'"),
        (["yes", "no"], "", "template ''.*{input}.*{answer}"),
        (["yes", "no"], "Q: {answer}", "template 'Q: {answer}'.*{input}.*{answer}"),
        (["yes", "no"], "{answer} {input}", "template '{answer} {input}'.*{input}.*{answer}"),
        (["yes", "no"], "{input} {answer} {input}", "template '{input} {answer} {input}'.*{input}.*{answer}"),
        (["yes", "no" * 300], None, r"template.*labels.* \d+ tokens.* \d+"),
    ],
)
def test_labels_and_templates_that_cannot_be(labels: list[str], template: str | None, told: str) -> None:
    with pytest.raises(UserError) as error:
        teller().choose(["x"], labels, template=template)
    assert re.search(told, str(error.value))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that never learned anything, as `regard train` keeps it."""
    folder, words = tmp_path_factory.mktemp("model"), tokenizer("characters")
    position = PositionConfig(kind="rotary")
    config = GptConfig(width=8, hidden=12, num_heads=2, num_layers=1, position=position, tied=False)
    net = build(config.sized(words.vocabulary), 6)
    for p in net.parameters():
        p.data *= 2  # so that it says more than line ends
    save_tokenizers(folder, Tokenizers(words, words))
    save_model(folder, net, "lm", Sample(max_length=9), 200, {})
    return folder


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    path = tmp_path / "shots.tsv"
    path.write_text("".join(f"{text}\t{answer}\n" for text, answer in SHOTS), "utf-8")
    return path


def test_lines_in_are_lines_out(folder: Path, shots: Path) -> None:
    lines = "so good\n\n {answer} \xe9\x1f\u2028x\nill\\n\n"
    options = ("run", folder, "--examples", shots, "--template", r"Is {input} well?\n{answer}")
    done = regard(*options, "--labels", "examples", stdin=lines.encode())
    out = done.stdout.decode().split("\n")
    assert [line.split("\t")[0] in ("yes", "no") for line in out] == [True, False, True, True, False]
    told = regard(*options, "--labels", "no, yes", "--json", stdin=lines.encode()).stdout
    found = [json.loads(line) for line in told.decode().split("\n")[:-1]]
    assert [each["input"] for each in found] == lines.split("\n")[:-1]
    assert [sorted(output["label"] for output in each["outputs"]) for each in found[:2]] == [["no", "yes"], []]
    net = _loaded(folder)
    texts = [shot for text, answer in SHOTS for shot in (f"Is {text} well?\n{answer}\n\n",)]
    rows = net.tokenizer.encode(["".join([*texts, "Is so good well?\n"]) + "yes"], spaced=False)[0]
    with torch.no_grad():
        wanted = net.model(torch.tensor([[2, *rows]]))[0].log_softmax(-1)[range(len(rows) - 3, len(rows)), rows[-3:]]
    said_of = {output["label"]: output for output in found[0]["outputs"]}
    assert said_of["yes"]["log_prob"] == pytest.approx(float(wanted.sum()), abs=1e-4)
    assert said_of["yes"]["probability"] + said_of["no"]["probability"] == pytest.approx(1)
    ((best, _),) = net.choose(["so good"], ["yes", "no"], examples=SHOTS, template="Is {input} well?\n{answer}")
    assert out[0] == f"{best.label}\t{best.probability:.4f}"
    said = regard(*options, stdin=lines.encode())
    assert said.stdout.count(b"\n") == 4
    assert said.stdout == regard(*options, "--beam", 1, stdin=lines.encode()).stdout  # the likeliest, undrawn
    assert said.stdout != regard(*options, "--sample", stdin=lines.encode()).stdout


def _loaded(folder: Path) -> Generator:
    from regard.tasks.folder import load_folder

    return Generator(load_folder(folder), engine="torch", threads=1)


def predicted(model: Generator, texts: list[str], first: int = 1, **options: Any) -> list[str]:
    return [each.line for each in model.predict(texts, model.options(options), first=first)]


def test_several_labels_stand_side_by_side(folder: Path) -> None:
    first, blank = predicted(_loaded(folder), ["a", ""], labels="yes,no", num_best=5)
    label, p, other, q = first.split("\t")
    assert {label, other} == {"yes", "no"}
    assert float(p) + float(q) == pytest.approx(1, abs=2e-4)
    assert blank == ""


def test_the_command_counts_lines_knows_its_examples_and_stops_where_it_is_told(
    folder: Path, shots: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Generator(_loaded(folder).loaded, engine="torch", threads=1, search=Greedy(max_length=9))
    (answer,) = predicted(model, ["ill"], examples=shots)
    assert answer
    assert predicted(model, ["ill"], examples=shots, stop=(answer[2:4],)) == [answer[:2].strip()]
    for labels in (None, "yes,no"):
        assert len(predicted(model, ["", "ill " * 99], 41, examples=shots, labels=labels)) == 2
    asked = model.options({"examples": shots})
    jobs = {asked.job(), model.options({"examples": shots, "labels": "yes,no"}).job()}
    shots.write_text("other\tno\n", "utf-8")
    assert len({*jobs, asked.job()}) == 3
    assert len(re.findall(r"(?m)^\D*line 42 .* 200 ", capsys.readouterr().err)) == 2


@pytest.mark.parametrize(
    ("content", "wanted", "told"),
    [
        ("", {}, r"shots\.tsv.*empty"),
        ("a\tyes\nb no\n", {}, r"shots\.tsv, line 2.*columns.* 1.* 2"),
        ("a\tyes\n\n", {}, r"shots\.tsv, line 2"),
        ("a\tyes\nb\tyes\n", {"labels": "examples"}, "labels.*'yes'"),
        ("a\tyes\nb\t\n", {"labels": "examples"}, "labels.*'yes', ''"),
        (None, {"labels": "examples"}, "labels.*examples"),
        (None, {"labels": ""}, "labels.*''"),
        (None, {"labels": "a,,b"}, "labels.*'a', '', 'b'"),
        ("a\tyes\n", {"score": True}, "score.*examples"),
        (None, {"labels": "a,b", "stop": ("x",)}, "stop.*labels"),
        (None, {"labels": "a,b", "prompt": "x"}, "prompt.*labels"),
    ],
)
def test_mistakes_are_told(content: str | None, wanted: dict[str, Any], told: str, folder: Path, shots: Path) -> None:
    if content is not None:
        shots.write_text(content, "utf-8")
        wanted = {"examples": shots, **wanted}
    with pytest.raises(UserError) as error:
        predicted(_loaded(folder), ["a"], **wanted)
    assert re.search(told, str(error.value))


@pytest.mark.parametrize("option", ["examples", "labels", "template"])
def test_other_models_are_not_prompted(option: str) -> None:
    config = RecurrentConfig().sized(20, 20)
    loaded = Loaded("translation", config, None, Greedy(), 9, "", _none, _none, Path())
    with pytest.raises(UserError, match=f"'{option}'.*num_best"):
        Translator(loaded).options({option: "x"})
