"""What is shown is what the model did: pictures, pages and data hold its numbers, whatever the model or search."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.attention.site import Site, Trace
from regard.decode.config import Beam, Greedy
from regard.engine.explain import Explanation, saliency
from regard.errors import UserError
from regard.look.look import Look
from regard.shapes import Padded
from tests.look.guard import run_on_one_step_alone
from tests.serve.toys import TEXTS, make_model

KINDS = ("transformer", "recurrent", "language")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: make_model(root / kind, kind) for kind in KINDS}


def shown(folders: dict[str, Path], kind: str, target: str | None = None) -> Look:
    look: Look = load(folders[kind]).attend(TEXTS[0], target)
    return look


@pytest.mark.parametrize("target", [None, "eine Katze sieht"])
@pytest.mark.parametrize("kind", KINDS)
def test_page_picture_and_data_hold_the_model_s_numbers(
    kind: str, target: str | None, folders: dict[str, Path]
) -> None:
    look = shown(folders, kind, target)
    page = {each["name"]: each for each in look.page()["maps"]}
    for path, weights in look.told.maps.items():
        numbers = np.frombuffer(base64.b64decode(page[path]["weights"]), "<f4").reshape(weights.shape)
        assert np.array_equal(numbers, weights.numpy())
        head = len(weights) - 1
        assert look.picture(path, head, pieces=True).weights == weights[head].tolist()
        assert look.json()["attention"][path] == weights.tolist()
        for row in look.picture(path).weights:
            assert sum(row) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_saliency_has_a_share_for_each_word_that_was_read(kind: str, folders: dict[str, Path]) -> None:
    look = shown(folders, kind)
    moved = look.saliency()
    assert moved is not None
    assert moved.shape == (
        len(look.axes["target"].labels),
        len(look.axes["source"].labels or look.axes["taken"].labels),
    )
    assert torch.allclose(moved.sum(-1), torch.ones(len(moved)), atol=1e-5)
    if kind != "language":  # which sees nothing that comes later
        assert bool((moved > 0).all())


def test_saliency_is_what_a_small_step_along_the_input_changes(folders: dict[str, Path]) -> None:
    """By finite differences, in float64."""
    model = load(folders["transformer"])
    look = model.attend(TEXTS[0], "eine Katze")
    told, network = look.told, model.model.double()
    moved = saliency(network, told)
    changes = []
    for word in range(len(told.source)):
        said = [_log_probs(network, told, word, factor) for factor in (1 + 1e-5, 1 - 1e-5)]
        changes.append(((said[0] - said[1]) / 2e-5).abs())
    by_hand = torch.stack(changes, 1)
    assert torch.allclose(moved, by_hand / by_hand.sum(-1, keepdim=True), atol=1e-6)


def _log_probs(network: Any, told: Explanation, word: int, factor: float) -> torch.Tensor:
    """Of the target, with one word's vector a little longer."""

    class Longer(Trace):
        def words(self, path: str, x: torch.Tensor) -> torch.Tensor:
            if path != "source":
                return x
            scale = torch.ones(x.shape[1], 1, dtype=x.dtype)
            scale[word] = factor
            return x * scale

    taken = torch.tensor([[told.first, *told.target[:-1]]])
    with torch.no_grad():
        logits = network(Padded.of([told.source]), taken, Site(trace=Longer()))[0]
    return logits.log_softmax(-1).gather(1, torch.tensor(told.target)[:, None])[:, 0]


def test_a_language_model_s_saliency_does_not_look_ahead(folders: dict[str, Path]) -> None:
    moved = shown(folders, "language").saliency()
    assert moved is not None
    assert float(moved.triu(1).abs().max()) == 0


def test_what_is_likely_at_each_step_is_told_with_probabilities(folders: dict[str, Path]) -> None:
    look = shown(folders, "transformer", "eine Katze")
    for step, said, log_prob in zip(
        look.page()["candidates"], look.told.target, look.told.log_probs.tolist(), strict=True
    ):
        odds = [p for _, p in step]
        assert odds == sorted(odds, reverse=True)
        names = dict(step)
        (name,) = look.name([said])
        if name in names:
            assert names[name] == pytest.approx(np.exp(log_prob), abs=1e-5)


def test_only_a_search_by_beam_has_a_tree(folders: dict[str, Path]) -> None:
    assert len(shown(folders, "transformer").page()["tree"]) > 1
    assert shown(folders, "transformer", "ein Vogel").page()["tree"] == []
    model = load(folders["transformer"])
    model.search = Greedy(max_length=9)
    assert model.attend(TEXTS[0]).page()["tree"] == []


def test_every_kind_of_file_is_written(folders: dict[str, Path], tmp_path: Path) -> None:
    look = shown(folders, "transformer")
    for kind in ("svg", "png", "html", "json"):
        look.save(tmp_path / f"a.{kind}")
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["target"] == look.axes["target"].labels
    picture = look.picture()
    with Image.open(tmp_path / "a.png") as image:
        dots = np.asarray(image.convert("L"))
    shades = {round(255 * weight) for row in picture.weights for weight in row}
    assert all((abs(dots.astype(int) - shade) <= 1).sum() > 400 for shade in shades)  # a cell has thousands
    with pytest.raises(UserError, match=r"\.gif.*\.svg, \.png, \.html, \.json"):
        look.save(tmp_path / "a.gif")
    assert look._repr_svg_() == picture.svg()


def test_a_page_holds_everything_and_no_text_can_leave_its_place(folders: dict[str, Path]) -> None:
    html = load(folders["transformer"]).attend("a </script><script>alert(1)</script> cat").html()
    assert html.count("</script>") == 1
    assert not re.search(r"(src|href)=|url\(|import ", html.replace("importance", ""))
    assert "default-src 'none'" in html
    assert "explanation" in html


def test_what_cannot_be_looked_at_is_told_in_words(folders: dict[str, Path]) -> None:
    model = load(folders["transformer"])
    with pytest.raises(UserError, match="tokens.* 40 "):
        model.attend("cat " * 100)
    with pytest.raises(UserError, match="blank"):
        model.attend(" ")
    look = model.attend("a cat")
    with pytest.raises(UserError, match=r"'x'.*encoder\.0\.self, "):
        look.picture("x")
    with pytest.raises(UserError, match=r"decoder\.1\.cross.* 0 .* 3.* 4"):
        look.picture(head=4)


def test_a_beam_and_a_greedy_search_are_looked_at_alike(folders: dict[str, Path]) -> None:
    model = load(folders["recurrent"])
    for search in (Beam(size=4, max_length=9), Greedy(max_length=9)):
        model.search = search
        (best, *_) = model.hypotheses([TEXTS[1]])[0]
        told = model.attend(TEXTS[1]).told
        assert told.target == best.tokens
        assert float(told.log_probs.sum()) == pytest.approx(best.log_prob, abs=1e-5)


def test_what_is_too_large_for_a_page_is_left_out_and_named(folders: dict[str, Path]) -> None:
    look = shown(folders, "transformer")
    sizes = {path: weights.numel() for path, weights in look.told.maps.items()}
    page = look.page(most=sum(sizes.values()) - 1)
    assert page["left_out"] == ["encoder.0.self"]
    assert "encoder.0.self" not in [each["name"] for each in page["maps"]]
    assert look.page()["left_out"] == []
    with pytest.raises(UserError, match=" 5 weights.*`site`"):
        look.page(most=5)


def test_data_tell_entropy_and_coverage(folders: dict[str, Path]) -> None:
    look = shown(folders, "recurrent")
    data, weights = look.json(), look.told.maps["decoder.cross"].double()
    assert data["axes"] == {"decoder.cross": ["head", "target", "source"]}
    by_hand = -(weights * weights.log2()).sum(-1).mean(-1)
    assert data["entropy"]["decoder.cross"] == pytest.approx(by_hand.tolist(), abs=1e-5)
    assert sum(data["coverage"]["decoder.cross"][0]) == pytest.approx(len(look.axes["target"].labels), abs=1e-4)


def test_gradients_and_the_tree_are_left_out_where_they_would_take_long(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folders["transformer"])
    assert model.attend("a cat").saliency() is not None
    assert model.attend("a cat").tree() is not None
    steps, size = len(model.attend("a cat").told.target), sum(p.numel() for p in model.model.parameters())
    monkeypatch.setattr("regard.tasks.runnable.TREE", 3 * steps * size - 1)
    assert model.attend("a cat").tree() is None
    monkeypatch.setattr("regard.tasks.runnable.GRADIENT", steps * (steps + 2) * size - 1)
    assert model.attend("a cat").saliency() is None


def test_an_output_that_is_too_long_is_refused_before_it_is_looked_at(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("transformer", "language"):
        model = load(folders[kind])
        run_on_one_step_alone(monkeypatch, model.model)
        with pytest.raises(UserError, match=r"tokens.*output.* [\d,]+ .*201,326,592"):
            model.attend("a cat", "世" * 2_000)
        with pytest.raises(UserError, match=r"tokens.*output.* [\d,]+ .* 64 "):
            model.attend("a cat", "a dog sees a bird", shown=64)
