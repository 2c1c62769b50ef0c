"""Vectors in OpenAI's shape: the model's own, as numbers or as bytes, and what has none."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from regard import load
from tests.serve.toys import MODELS, answers

TEXTS = ["rot grün", "blau", " "]


@pytest.mark.parametrize("name", ["bert", "elmo"])
def test_vectors_are_those_of_the_model(name: str) -> None:
    path, body = "/v1/embeddings", {"model": name, "input": TEXTS}
    (_, found), (_, packed), (_, one) = answers(
        MODELS / name,
        (path, {**body, "dimensions": None, "user": "me"}),
        (path, {**body, "encoding_format": "base64"}),
        (path, {**body, "input": "blau"}),
    )
    model = load(MODELS / name)
    expected = model.embed(TEXTS).numpy()
    assert (found["object"], found["model"], found["data"][1]["index"]) == ("list", name, 1)
    assert np.abs(np.array([each["embedding"] for each in found["data"]]) - expected).max() < 1e-6
    bytes_of = [base64.b64decode(each["embedding"]) for each in packed["data"]]
    assert np.array_equal([np.frombuffer(each, "<f4") for each in bytes_of], expected)
    assert np.allclose(one["data"][0]["embedding"], expected[1], atol=1e-6)
    count = sum(len(model.read(text)) for text in TEXTS)
    assert found["usage"] == {"prompt_tokens": count, "total_tokens": count}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dimensions": 15}, "dimensions"),
    ({"input": ""}, "input"),
    ({"input": ["a", ""]}, "input"),
    ({"input": []}, "input"),
    ({"input": [[1, 2]]}, "input"),
    ({"input": "a" * 5001}, "input"),
    ({"encoding_format": "int8"}, "encoding_format"),
]


@pytest.mark.parametrize(("change", "param"), REFUSED)
def test_what_has_no_vector_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    ((status, found),) = answers(MODELS / "bert", ("/v1/embeddings", {"model": "bert", "input": "a", **change}))
    assert (status, found["error"]["param"], found["error"]["type"]) == (400, param, "invalid_request_error")


def test_a_text_is_read_whole_or_not_at_all() -> None:
    length = load(MODELS / "bert").max_length
    texts = ["rot", "rot " * length]
    ((status, found),) = answers(MODELS / "bert", ("/v1/embeddings", {"model": "bert", "input": texts}))
    assert status == 400
    assert f"text 2 fills all {length} tokens" in found["error"]["message"]


@pytest.mark.parametrize(("name", "code"), [("classification", None), ("none", "model_not_found")])
def test_a_model_that_makes_no_vectors_says_so(name: str, code: str | None) -> None:
    ((status, found),) = answers(MODELS / "classification", ("/v1/embeddings", {"model": name, "input": "a"}))
    assert (status, found["error"]["param"], found["error"]["code"]) == (404 if code else 400, "model", code)
