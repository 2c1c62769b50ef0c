from dataclasses import replace

import pytest
import torch
from tests.contracts.family import CONFIGS, a_source, shrunk

from regard.attention.config import PositionConfig
from regard.decode.config import Beam, Greedy
from regard.decode.ensemble import Ensemble
from regard.decode.search import decode
from regard.errors import UserError
from regard.models.build import build
from regard.models.presets import transformer_tiny


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    members = [build(CONFIGS[name]).double() for name in ("preset-transformer_tiny", "preset-recurrent_bahdanau")]
    both, tokens = Ensemble(members), torch.tensor([1, 1, 1])
    said = both.step(tokens, both.begin(a_source()))
    mean = sum(m.step(tokens, m.begin(a_source())).log_probs.exp() for m in members) / 2  # type: ignore[operator]
    assert torch.allclose(said.log_probs.exp(), mean, atol=1e-12)


def test_an_ensemble_of_twins_is_the_twin_under_every_search() -> None:
    model = build(CONFIGS["preset-transformer_tiny"]).double()
    for search in (Greedy(max_length=6), Beam(size=3, max_length=6)):
        alone, twins = (decode(m, a_source(), search) for m in (model, Ensemble([model, model])))
        assert [h[0].tokens for h in alone] == [h[0].tokens for h in twins]


def test_an_ensemble_ends_with_the_positions_of_its_shortest_member() -> None:
    table = PositionConfig(kind="learned", max_length=7)
    shape = shrunk(transformer_tiny().sized(11, 13))
    members = [build(replace(shape, position=position)) for position in (PositionConfig(), table)]
    search = Greedy(max_length=12, never=(members[0].end,))
    assert [len(best[0].tokens) for best in decode(Ensemble(members), a_source(), search)] == [7, 7, 7]


def test_members_must_share_a_vocabulary() -> None:
    with pytest.raises(UserError, match="ensemble.*models"):
        Ensemble([])
    one, other = build(shrunk(transformer_tiny().sized(11, 13))), build(shrunk(transformer_tiny().sized(11, 12)))
    both = Ensemble([one, other])
    with pytest.raises(UserError, match=r"vocabularies.*\[12, 13\]"):
        both.step(torch.tensor([1]), both.begin(a_source([[5]])))
