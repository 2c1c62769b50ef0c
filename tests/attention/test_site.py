import pytest
import torch

from regard.attention import Site, Trace
from regard.attention.site import dropout
from regard.rng import Key


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7])
def test_dropout_zeroes_its_share_scales_the_rest_and_passes_the_same_gradient(rate: float) -> None:
    x = torch.randn(400, 500, requires_grad=True)
    y = dropout(x, rate, Key(1))
    gone = y == 0
    assert gone.float().mean().item() == pytest.approx(rate, abs=0.01)
    assert torch.allclose(y[~gone], x[~gone] / (1 - rate), rtol=1e-4)
    y.sum().backward()
    assert torch.equal(x.grad == 0, gone)  # type: ignore[arg-type]


def test_places_have_masks_of_their_own_and_a_repeat_has_the_same() -> None:
    x, site = torch.ones(50, 20), Site(key=Key(1))
    one, again = ((site / "encoder" / 0).dropout(x, 0.5) for _ in range(2))
    assert torch.equal(one, again)
    for other in (
        site / "encoder" / 1,
        site / "decoder" / 0,
        (site / "encoder" / 0).at(1),
        Site(key=Key(2)) / "encoder" / 0,
    ):
        assert not torch.equal(other.dropout(x, 0.5), one)


def test_without_a_key_nothing_is_dropped() -> None:
    x = torch.ones(5, 4)
    assert Site().dropout(x, 0.9) is x
    assert Site(key=Key(1)).dropout(x, 0.0) is x
    assert (Site() / "a" / 3).at(7).path == "a.3"


def test_a_map_has_the_names_of_the_sequences_of_its_rows_and_columns() -> None:
    trace, weights = Trace(), torch.zeros(1, 2, 3, 5)
    site = Site(trace=trace)
    trace.record(site / "decoder" / 0, weights)
    trace.record((site / "decoder" / 1).onto("source").at(4), weights)
    trace.record(site.over("source").at(2) / "encoder" / 0, weights)
    trace.record(Site(Key(1), trace).over("source").at(2) / "encoder" / 1, weights)
    assert trace.axes == {
        "decoder.0": ("target", "taken"),
        "decoder.1": ("target", "source"),
        "encoder.0": ("source", "source"),
        "encoder.1": ("source", "source"),
    }
    assert list(trace.maps()) == list(trace.axes)


def test_the_names_of_sequences_change_no_mask() -> None:
    x, site = torch.ones(50, 20), Site(key=Key(1)) / "encoder"
    for other in (site.over("source"), site.onto("source")):
        assert torch.equal(other.dropout(x, 0.5), site.dropout(x, 0.5))
