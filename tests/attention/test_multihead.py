import pytest
import torch
from tests.contracts.family import POSITIONS

from regard.attention import KV, Mask, MultiheadAttention, Site, Trace
from regard.attention.config import AttentionConfig
from regard.attention.position import layer_position, steps
from regard.errors import UserError
from regard.rng import Key


@pytest.mark.parametrize("position", POSITIONS)
def test_a_grown_cache_equals_the_whole_at_once(position: str) -> None:
    layer = MultiheadAttention(
        AttentionConfig(width=16, num_heads=4, num_kv_heads=2), layer_position(POSITIONS[position], 4, 4, 0)
    ).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    where, _ = steps(5, 5, None, x.device)
    whole = layer(x, layer.project_kv(x, positions=where), mask=Mask.causal())
    cache = layer.project_kv(x[:, :2], positions=where[:, :2])
    for t in range(2, 5):
        cache = cache.append(layer.project_kv(x[:, t : t + 1], positions=where[:, t : t + 1]))
        step = layer(x[:, t : t + 1], cache, mask=Mask.causal())
        assert torch.allclose(step[:, 0], whole[:, t], atol=1e-12)


def test_key_side_work_happens_once_per_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = MultiheadAttention(AttentionConfig(width=8, score="additive", projection=None))
    calls: list[int] = []
    from_key = layer.score.from_key
    monkeypatch.setattr(from_key, "forward", lambda k: calls.append(1) or torch.zeros(*k.shape[:3], 8))  # type: ignore[func-returns-value]
    memory = layer.project_kv(torch.randn(2, 5, 8))
    for _ in range(4):
        layer(torch.randn(2, 1, 8), memory)
    assert calls == [1]


def test_without_projections_the_states_themselves_are_looked_at() -> None:
    layer = MultiheadAttention(AttentionConfig(width=8, score="dot", projection=None))
    assert not list(layer.parameters())
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    wanted = (x @ memory.transpose(1, 2)).softmax(-1) @ memory
    assert torch.allclose(layer(x, layer.project_kv(memory)), wanted, atol=1e-6)


def test_the_number_of_parameters_does_not_change_with_the_number_of_heads() -> None:
    """One deck: "#Params unchanged!"."""
    sizes = {
        sum(p.numel() for p in MultiheadAttention(AttentionConfig(width=24, num_heads=h)).parameters())
        for h in (1, 2, 4, 8)
    }
    assert len(sizes) == 1


def test_a_trace_collects_and_modules_keep_nothing() -> None:
    layer = MultiheadAttention(AttentionConfig(width=8, num_heads=2))
    before = set(vars(layer))
    trace = Trace()
    for _ in range(3):
        layer(torch.randn(2, 1, 8), layer.project_kv(torch.randn(2, 5, 8)), site=Site(trace=trace) / "decoder" / 0)
    assert trace.maps()["decoder.0"].shape == (2, 2, 3, 5)
    assert set(vars(layer)) == before


def test_weight_dropout_follows_the_key() -> None:
    layer = MultiheadAttention(AttentionConfig(width=8, num_heads=2, dropout=0.5))
    x, memory = torch.randn(2, 3, 8), layer.project_kv(torch.randn(2, 5, 8))
    one, again = (layer(x, memory, site=Site(key=Key(1))) for _ in range(2))
    assert torch.equal(one, again)
    assert not torch.equal(one, layer(x, memory, site=Site(key=Key(2))))
    assert not torch.equal(one, layer(x, memory, site=Site(key=Key(1)) / "elsewhere"))
    assert torch.equal(layer(x, memory), layer(x, memory)), "without a key there is no dropout"


def test_rows_of_a_cache_are_selected_and_old_places_dropped() -> None:
    cache = KV(torch.arange(24.0).view(2, 1, 4, 3), torch.zeros(2, 1, 4, 3))
    assert torch.equal(cache.since(2).k, cache.k[:, :, 2:])
    assert torch.equal(cache.select(torch.tensor([1, 1, 0])).k, cache.k[[1, 1, 0]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 30, "num_heads": 4}, "width 30 .*num_heads 4.* 28"),
        ({"width": 3, "num_heads": 4}, "width 3 .*num_heads 4.* 4"),
        ({"width": 32, "num_heads": 8, "num_kv_heads": 3}, "num_kv_heads 3 .*num_heads 8.* 2"),
        ({"width": 32, "num_heads": 2, "num_kv_heads": 4}, "num_kv_heads 4 .*num_heads 2.* 2"),
        ({"width": 0}, "width 0 .* 1 .*262,144"),
        ({"width": 8, "num_heads": 2, "projection": None}, r"2 heads.*projection: \[\]"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AttentionConfig(**settings)  # type: ignore[arg-type]


def test_layers_refuse_what_their_score_cannot_compare() -> None:
    with pytest.raises(UserError, match="queries.* 8 .*keys.* 6"):
        MultiheadAttention(AttentionConfig(width=8, memory_width=6, score="dot", projection=None))
    with pytest.raises(UserError, match="score.*'cosin'"):
        MultiheadAttention(AttentionConfig(width=8, score="cosin"))
