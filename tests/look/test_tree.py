"""The tree holds what the search did, against a search by hand."""

from __future__ import annotations

import pytest
import torch

from regard.attention.config import PositionConfig
from regard.decode.config import Beam
from regard.decode.search import decode
from regard.engine.torch import TorchEngine
from regard.look.tree import Tree, climb
from regard.models.build import build
from regard.models.config import GptConfig
from tests.contracts.family import CONFIGS, a_source


def path(tree: Tree, number: int) -> list[int]:
    found = []
    while number >= 0:
        found.append(tree.nodes[number].token)
        number = tree.nodes[number].parent
    return found[::-1]


@pytest.mark.parametrize("name", ["preset-transformer_tiny", "preset-recurrent_bahdanau"])
def test_a_tree_holds_every_hypothesis_with_its_score_and_marks_the_best(name: str) -> None:
    model, search = build(CONFIGS[name]), Beam(size=4, num_best=4, max_length=6)
    (found,) = decode(model, a_source([[5, 6, 7]]), search)
    tree = climb(model, [5, 6, 7], search)
    ended = {tuple(path(tree, i)): node for i, node in enumerate(tree.nodes) if node.score is not None}
    assert [ended[tuple(h.tokens)].score for h in found] == [h.score for h in found]
    assert [ended[tuple(h.tokens)].log_prob for h in found] == pytest.approx([h.log_prob for h in found], abs=1e-5)
    best = [path(tree, i) for i, node in enumerate(tree.nodes) if node.best]
    assert sorted(best, key=len) == [found[0].tokens[:n] for n in range(1, len(found[0].tokens) + 1)]


def test_a_node_s_log_probability_is_that_of_its_words() -> None:
    model, source = build(CONFIGS["preset-transformer_tiny"]), a_source([[5, 6, 7]])
    tree = climb(model, [5, 6, 7], Beam(size=3, num_best=3, max_length=5))
    with torch.no_grad():
        for number, node in enumerate(tree.nodes):
            words = path(tree, number)
            taken = torch.tensor([[model.start, *words[:-1]]])
            log_probs = model(source, taken).log_softmax(-1)[0].gather(1, torch.tensor(words)[:, None])
            assert node.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-5)


def test_a_tree_may_grow_from_a_prompt() -> None:
    """Of a model with an end to its positions: a prompt of 4 leaves room for 2 more tokens and the last."""
    position = PositionConfig(kind="learned", max_length=6)
    config = GptConfig(vocabulary=9, width=8, hidden=12, num_heads=2, num_layers=1, start=1, end=2, position=position)
    model, prompt, search = build(config), [1, 5, 6, 7], Beam(size=3, num_best=3, max_length=9)
    (hypotheses,) = TorchEngine(model).decode([prompt], search)
    tree = climb(model, prompt, search)
    ended = {tuple(path(tree, i)): node.score for i, node in enumerate(tree.nodes) if node.score is not None}
    assert [ended[tuple(each.tokens)] for each in hypotheses] == [each.score for each in hypotheses]
    assert max(map(len, ended)) == 3
    for number, node in enumerate(tree.nodes):
        words = path(tree, number)
        with torch.no_grad():
            log_probs = model(torch.tensor([[*prompt, *words[:-1]]]))[0, 3:].log_softmax(-1)
        assert node.log_prob == pytest.approx(float(log_probs.gather(1, torch.tensor(words)[:, None]).sum()), abs=1e-5)
