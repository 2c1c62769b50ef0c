from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.family import CONFIGS, SOURCES, a_source
from tests.look.guard import run_on_one_step_alone

from regard.data.config import VectorsConfig
from regard.decode.config import Beam, Greedy, Sample, Search
from regard.decode.search import decode
from regard.engine import explain as module
from regard.engine.explain import Sizes, batches, explain
from regard.errors import UserError
from regard.models.build import build

SEARCHES = {"greedy": Greedy(max_length=6), "beam": Beam(size=4, max_length=6), "sample": Sample(max_length=6)}


def sizes(model: Any) -> Sizes:
    return Sizes(model, partial(module._run, model, model.start), [5], [2])


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if config.front is None])
def test_what_was_decoded_is_explained_with_the_same_log_probabilities(name: str, search: Search) -> None:
    model = build(CONFIGS[name])
    best = [hypotheses[0] for hypotheses in decode(model, a_source(), search)]
    for sentence, hypothesis, told in zip(
        SOURCES, best, explain(model, SOURCES, [h.tokens for h in best]), strict=True
    ):
        assert told.source == sentence
        assert told.target == hypothesis.tokens
        assert abs(float(told.log_probs.sum()) - hypothesis.log_prob) < 1e-5 * len(hypothesis.tokens)
        for weights in told.maps.values():
            assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5)


def test_maps_are_trimmed_to_their_sentence() -> None:
    model = build(CONFIGS["preset-transformer_tiny"])
    told = explain(model, SOURCES, [[4, 5, 2], [6, 2], [2]])[1]
    assert {path: tuple(weights.shape) for path, weights in told.maps.items()} == {
        "encoder.0.self": (4, 3, 3),
        "encoder.1.self": (4, 3, 3),
        "decoder.0.self": (4, 2, 2),
        "decoder.0.cross": (4, 2, 3),
        "decoder.1.self": (4, 2, 2),
        "decoder.1.cross": (4, 2, 3),
    }


def test_pieces_merge_to_words() -> None:
    model = build(CONFIGS["preset-recurrent_bahdanau"])
    (told,) = explain(model, [[5, 6, 7]], [[4, 8, 2]])
    weights = told.maps["decoder.cross"][0]
    merged = told.merged("decoder.cross", rows=[0, 0, 1], columns=[7, 3, 3])[0]
    by_hand = torch.stack((weights[:2].mean(0), weights[2]))
    by_hand = torch.stack((by_hand[:, 0], by_hand[:, 1:].sum(1)), 1)
    assert torch.allclose(merged, by_hand)
    assert torch.allclose(merged.sum(-1), torch.ones(2))
    with pytest.raises(UserError, match=r"2 .* 3 columns.*decoder\.cross"):
        told.merged("decoder.cross", rows=[0, 0, 1], columns=[0, 1])
    with pytest.raises(UserError, match="1 output.* 3 source"):
        explain(model, SOURCES, [[4]])


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if config.front is None])
def test_what_a_pass_holds_is_reckoned_from_the_tokens_of_both_sides(name: str) -> None:
    model = build(CONFIGS[name])
    (told,) = explain(model, [[5, 6, 7, 8]], [[4, 8, 2]])
    held, last = sizes(model).numbers(4, 3)
    words = sum(part.table.shape[0] for path, part in model.named_modules() if path == "head")
    assert held >= sum(weights.numel() for weights in told.maps.values()) + 3 * words
    assert last == ([weights.numel() for weights in told.maps.values()] or [0])[-1]


def test_a_pass_that_is_too_large_is_refused_before_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(CONFIGS["preset-transformer_tiny"])
    held, last = sizes(model).numbers(3, 2)
    run_on_one_step_alone(monkeypatch, model)
    with pytest.raises(UserError, match=f"3 tokens.*source.* 2 tokens.*output.* {last} .* {last - 1} "):
        explain(model, [[5, 6, 7]], [[4, 2]], shown=last - 1)
    monkeypatch.setattr(module, "MOST", held - 1)
    with pytest.raises(UserError, match=rf"3 tokens.*source.* 2 tokens.*output.* {held:,} .* {held - 1:,}\b"):
        explain(model, [[5, 6, 7]], [[4, 2]])
    monkeypatch.setattr(module, "MOST", held)
    with pytest.raises(AssertionError, match="it was run"):
        explain(model, [[5, 6, 7]], [[4, 2]])
    with pytest.raises(UserError, match=rf" {2 * held:,} .* {held:,}\b"):
        explain(model, [[5, 6, 7]] * 2, [[4, 2]] * 2)


def test_long_pairs_are_looked_at_by_fewer_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(CONFIGS["preset-transformer_tiny"])
    short, long = [[5, 2]] * 5, [[5] * 40] * 3
    assert [(each.start, each.stop) for each in batches(model, short, short)] == [(0, 5)]
    monkeypatch.setattr(module, "MOST", 4 * 5 * sizes(model).numbers(2, 2)[0])
    both = [*short, *long]
    parts = [(each.start, each.stop) for each in batches(model, both, both)]
    assert parts[-3:] == [(5, 6), (6, 7), (7, 8)]
    assert [i for start, stop in parts for i in range(start, stop)] == list(range(8))


def test_a_source_may_be_vectors_of_numbers() -> None:
    config = replace(CONFIGS["preset-transformer_tiny"], front=VectorsConfig(features=3))
    model, sources = build(config), [np.random.default_rng(0).random((n, 3), np.float32) for n in (5, 7)]
    explanations = explain(model, sources, [[4, 8, 2], [2]])
    for source, length, explanation in zip(sources, (3, 1), explanations, strict=True):
        assert explanation.source is source
        assert explanation.maps["encoder.0.self"].shape == (4, len(source), len(source))
        assert explanation.maps["decoder.1.cross"].shape == (4, length, len(source))
        assert explanation.across == ["decoder.0.cross", "decoder.1.cross"]
        assert module.saliency(model, explanation).shape == (length, len(source))
