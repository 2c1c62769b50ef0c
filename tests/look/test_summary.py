"""Figures about heads, against the same by hand."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import load
from regard.attention.site import Site, Trace
from regard.engine import explain as passes
from regard.engine.explain import explain
from regard.metrics.alignment import parse
from regard.shapes import Padded
from regard.tasks.translation import heads as summary
from regard.tasks.translation.runtime import Translator as Model
from tests.serve.toys import TEXTS, make_model
from tests.training.toy import regard


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    loaded: Model = load(make_model(tmp_path_factory.mktemp("models") / "en-de"))
    return loaded


def test_entropy_is_in_bits_and_coverage_counts_what_is_left_out() -> None:
    rows = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    assert summary.entropy(rows).tolist() == [2.0, 0.0]
    assert summary.coverage_error(torch.eye(3)) == 0
    left_out = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert summary.coverage_error(left_out) == pytest.approx(math.log(2))  # one twice, one never: log(1 + 1) each


def test_a_muted_head_says_nothing_and_others_are_as_they_were(model: Model) -> None:
    """Against a model whose head was cut out: its rows of the output's weights are zero."""
    source, said = Padded.of(model.tokenizers.read(TEXTS[:2])), torch.tensor([[1, 9, 8], [1, 7, 9]])
    muted = model.model(source, said, Site(trace=Trace(muted=("decoder.1.cross", 2))))
    out = _cross(model)
    kept = out.weight.detach().clone()
    width = kept.shape[1] // 4
    with torch.no_grad():
        out.weight[:, 2 * width : 3 * width] = 0
        cut = model.model(source, said)
        out.weight.copy_(kept)
        whole = model.model(source, said)
    assert torch.allclose(muted, cut, atol=1e-6)
    assert not torch.allclose(muted, whole, atol=1e-3)


def _cross(model: Model) -> torch.nn.Linear:
    names = [name for name, part in model.model.named_modules() if name.endswith("to_out")]
    (name,) = [name for name in names if name.startswith("decoder") and ".1." in name and "cross" in name]
    found = model.model.get_submodule(name)
    assert isinstance(found, torch.nn.Linear)
    return found


def test_heads_are_ranked_by_what_is_lost_without_them(model: Model) -> None:
    outputs = model.spelled(["eine Katze", "der Hund", "ein Vogel", "der Hund schläft"])
    gold = [parse("0-0 1-1", "gold")] * 4
    done: list[int] = []
    found = summary.heads(model, TEXTS, outputs, done.append, gold)
    assert done == list(range(1, 25))
    assert {(each.site, each.head) for each in found} == set(summary.places(model))
    assert [each.loss for each in found] == sorted((each.loss for each in found), reverse=True)
    first = found[0]
    told = model.explain(TEXTS, outputs)
    whole = sum(float(each.log_probs.sum()) for each in told)
    words = sum(len(each.target) for each in told)
    muted = explain(model.model, model.tokenizers.read(TEXTS), outputs, Trace(muted=(first.site, first.head)))
    lost = (whole - sum(float(each.log_probs.sum()) for each in muted)) / words
    assert first.loss == pytest.approx(lost, abs=1e-5)
    rows = torch.cat([summary.entropy(each.maps[first.site][first.head]) for each in told])
    assert first.entropy == pytest.approx(float(rows.mean()), abs=1e-5)
    assert all((each.alignment_error is not None) == each.site.endswith("cross") for each in found)


def test_no_more_sentences_are_held_than_fit(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = model.spelled(["eine Katze", "der Hund", "ein Vogel", "der Hund schläft"])
    together = summary.heads(model, TEXTS, outputs, lambda done: None)
    sizes = list[int]()
    original = passes.explain

    def counted(network: Any, sources: Any, *given: Any) -> Any:
        sizes.append(len(sources))
        return original(network, sources, *given)

    longest = max(map(len, model.tokenizers.read(TEXTS))), max(map(len, outputs))
    monkeypatch.setattr(
        passes,
        "MOST",
        passes.Sizes(model.model, partial(passes._run, model.model, model.start), [5], [2]).numbers(*longest)[0],
    )
    monkeypatch.setattr(passes, "explain", counted)
    apart = summary.heads(model, TEXTS, outputs, lambda done: None)
    assert set(sizes) == {1}
    for one, other in zip(sorted(together, key=str), sorted(apart, key=str), strict=True):
        assert (one.entropy, one.largest) == pytest.approx((other.entropy, other.largest), abs=1e-5)
    assert [each.error for each in summary.worst(model, TEXTS, outputs, lambda done: None)]


def test_the_worst_covered_come_first(model: Model) -> None:
    outputs = model.spelled(["eine Katze", "der Hund", "ein Vogel", "der Hund schläft"])
    found = summary.worst(model, TEXTS, outputs, lambda done: None)
    assert [each.error for each in found] == sorted((each.error for each in found), reverse=True)
    assert {each.text for each in found} == set(TEXTS)
    assert all(each.least in each.text.split() for each in found)


def test_the_command_line_tells_them(model: Model, tmp_path: Path) -> None:
    source, target, gold = (tmp_path / name for name in ("a.en", "a.de", "a.links"))
    source.write_text("a cat\n\nthe dog sleeps\n", "utf-8")
    target.write_text("eine Katze\n\nder Hund schläft\n", "utf-8")
    gold.write_text("0-0 1-1\n\n0-0 1-1 2-2\n", "utf-8")
    folder = model.loaded.folder
    rows = regard("attend", folder, "--heads", source, "--targets", target, "--gold", gold, "--json").stdout
    assert len(rows.splitlines()) == 24
    assert b"alignment_error" in rows
    assert b"a cat" in regard("attend", folder, "--worst", source, "--count", 2).stdout
    gold.write_text("0-0\n", "utf-8")
    told = regard("attend", folder, "--heads", source, "--targets", target, "--gold", gold, code=2).stderr
    assert re.search(rf"{source}.* 3 .*{gold}.* 1\b", told.decode())
    assert b"--heads FILE" in regard("attend", folder, code=2).stderr
