"""Any model by its own options: what a request may set, what is refused, and what comes back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from regard import load
from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.worker import described
from regard.tasks.options import Options, accepted, option
from regard.tasks.registry import TASKS
from tests.cli.reading import regard
from tests.serve.toys import MODELS, answers

RUN = "/api/run"
LINES = {  # of each model, and options as a request has them and as the command line does
    "rnn": ("rot blau", {"beam": 2, "num_best": 2}, ["--beam=2", "--nbest=2"]),
    "lstm-lm": ("rot", {"score": True}, ["--score"]),
    "gpt": ("rot", {"labels": "rot,blau"}, ["--labels=rot,blau"]),
    "native-gpt-int8": ("rot", {"stop": ["blau"], "beam": 1}, ["--stop=blau", "--beam=1"]),
    "bert": ("rot [MASK]", {"num_best": 3}, ["--nbest=3"]),
    "elmo": ("rot", {"vectors": True}, ["--vectors"]),
    "classification": ("rot", {"num_best": None}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_it_says_what_run_says(name: str) -> None:
    text, options, flags = LINES[name]
    lines = f"{text}\n{text} {text}\n"
    ((status, found),) = answers(MODELS / name, (RUN, {"text": lines.splitlines(), "options": options}))
    assert status == 200, found
    by_run, _ = regard("run", MODELS / name, "--json", *flags, stdin=lines.encode())
    assert [{key: x for key, x in each.items() if key != "line"} for each in found["results"]] == [
        json.loads(line) for line in by_run.splitlines()
    ]
    plain, _ = regard("run", MODELS / name, *[flag for flag in flags if "nbest" not in flag], stdin=lines.encode())
    if flags[-1:] != ["--nbest=3"]:
        assert [each["line"] for each in found["results"]] == plain.splitlines()


@pytest.mark.parametrize("task", TASKS)
def test_no_request_names_a_file(task: str) -> None:
    schema = TASKS[task].run
    for each in fields(schema):
        if each.metadata["kind"] is Path:
            with pytest.raises(UserError, match=f"no option '{each.name}'"):
                accepted(schema, {each.name: __file__})


@dataclass(frozen=True, kw_only=True)
class OtherOptions(Options):
    file: Path = option(Path("here"), "A file, by the type of its default.")
    other: Path | None = option(None, "A file, as it says.", kind=Path)
    size: int = option(3, "A number.")


def test_files_are_known_by_their_type() -> None:
    assert accepted(OtherOptions, {"size": "4"}) == {"size": 4}
    for name in ("file", "other"):
        with pytest.raises(UserError, match=f"{name}.* size$"):
            accepted(OtherOptions, {name: "x"})


LM, MOST = "lstm-lm", Limits()
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("rnn", {"beam": 17}, "beam 17 .*16"),
    ("rnn", {"beam": "many"}, "beam"),
    ("rnn", {"beam": 2, "sample": True}, "beam"),
    ("rnn", {"tag": "x"}, "x"),
    ("rnn", {"num_best": 9}, "num_best 9 .*8"),
    ("bert", {"num_best": 0}, "num_best 0"),
    ("bert", {"near": "/etc/passwd"}, "'near'.*num_best"),
    ("bert", {"vectors": "perhaps"}, "vectors"),
    ("classification", {"beam": 2}, "'beam'"),
    (LM, {"prompt": "a"}, "prompt"),
    (LM, {"prompt": "a", "score": True}, "prompt"),
    (LM, {"max_tokens": MOST.tokens + 1}, "max_tokens 1,025"),
    (LM, {"temperature": 0}, "temperature"),
    (LM, {"top_p": "inf"}, "top_p"),
    (LM, {"seed": 1 << 62, "top_k": 0}, "top_k 0"),
    (LM, {"stop": "ab"}, "stop"),
    (LM, {"stop": [""]}, "empty"),
    (LM, {"template": "x" * 101}, "100 characters"),
]


@pytest.mark.parametrize(("name", "options", "told"), WRONG)
def test_options_that_cannot_be_are_refused_by_name(name: str, options: dict[str, Any], told: str) -> None:
    ((status, found),) = answers(MODELS / name, (RUN, {"text": "rot", "options": options}))
    assert status == 400
    assert re.search(told, found["error"]), found


def test_texts_are_bounded_with_what_is_asked_of_them() -> None:
    ((few, _), (many, why)) = answers(
        MODELS / LM,
        (RUN, {"text": ["rot"] * 2, "options": {"max_tokens": 4, "beam": 1}}),
        (RUN, {"text": ["rot"] * 64, "options": {"max_tokens": 1024}}),
    )
    assert (few, many) == (200, 400)
    assert "65,536" in why["error"]
    context = "rot " * 500
    ((few, _), (many, why), (odd, parts)) = answers(
        MODELS / "choice",
        (RUN, {"text": f"{context}\tblau\trot"}),
        (RUN, {"text": context + "\tblau" * 100}),
        (RUN, {"text": ["rot\tblau\trot", "rot"]}),
    )
    assert (few, many, odd) == (200, 400, 400)
    assert "choice" in why["error"]
    assert "line 2 " in parts["error"]


def test_models_tell_how_they_can_be_asked() -> None:
    for name, expected in {
        "bert": {"task": "mlm", "verbs": ["embed"], "options": {"num_best": 5}, "parts": 1},
        "elmo": {"task": "bilm", "verbs": ["embed"], "options": {"vectors": True}, "parts": 1},
        "spans": {"task": "spans", "verbs": [], "reads": "a document and a question", "parts": 2},
        "native-int8": {"task": "translation", "verbs": ["translate"], "beam": 3},
    }.items():
        told = described(load(MODELS / name))
        assert {key: told[key] for key in expected} == expected
