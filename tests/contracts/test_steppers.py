"""Contract 3: padding changes nothing, stepping equals the full pass, rows travel alone; for every model."""

import pytest
import torch

from regard.attention import Site, Trace
from regard.decode.config import Beam, Greedy
from regard.decode.search import decode
from regard.models.build import build
from regard.models.config import TransformerConfig
from regard.shapes import Padded
from tests.contracts.family import CONFIGS, SOURCES, a_source, a_target

EVERY = pytest.mark.parametrize("name", CONFIGS)


@EVERY
def test_a_padded_batch_equals_its_members_alone(name: str) -> None:
    model = build(CONFIGS[name]).double()
    together = model(a_source(), a_target())
    for i, sentence in enumerate(SOURCES):
        alone = model(a_source([sentence]), a_target()[i : i + 1])
        assert torch.allclose(together[i], alone[0], atol=1e-12)


@EVERY
def test_stepping_equals_the_full_pass(name: str) -> None:
    model = build(CONFIGS[name]).double()
    source, target = a_source(), a_target()
    full = model(source, target).log_softmax(-1)
    state = model.begin(source)
    for t in range(target.shape[1]):
        step = model.step(target[:, t], state)
        state = step.state
        assert torch.allclose(step.log_probs, full[:, t], atol=1e-12)


@EVERY
def test_ragged_prefixes_equal_stepping_through_them(name: str) -> None:
    model = build(CONFIGS[name]).double()
    source, target = a_source(), a_target()
    lengths = torch.tensor([3, 1, 4])
    state = model.begin(source, Padded(target, lengths))
    step = model.step(target.gather(1, lengths[:, None] - 1)[:, 0], state)
    full = model(source, target).log_softmax(-1)
    assert torch.allclose(step.log_probs, full[torch.arange(3), lengths - 1], atol=1e-12)
    after = model.step(torch.tensor([5, 6, 7]), step.state).log_probs
    for i, n in enumerate(lengths.tolist()):
        longer = torch.cat((target[i : i + 1, :n], torch.tensor([[5 + i]])), 1)
        alone = model(a_source([SOURCES[i]]), longer).log_softmax(-1)[0, -1]
        assert torch.allclose(after[i], alone, atol=1e-12)


@EVERY
def test_rows_can_be_selected(name: str) -> None:
    """Reordered, repeated and dropped rows go on as if alone."""
    model = build(CONFIGS[name]).double()
    target = a_target()
    state = model.step(target[:, 0], model.begin(a_source())).state
    rows = torch.tensor([2, 0, 2])
    step = model.step(target[rows, 1], state.select(rows))
    full = model(a_source(), target).log_softmax(-1)
    assert torch.allclose(step.log_probs, full[rows, 1], atol=1e-12)
    alone = step.state.select(torch.tensor([0]))
    last = model.step(target[2, 2:3], alone).log_probs
    assert torch.allclose(last[0], full[2, 2], atol=1e-12)


@EVERY
def test_a_traced_pass_says_the_same_and_its_rows_sum_to_one(name: str) -> None:
    model = build(CONFIGS[name])  # float32: the promise is 1e-5
    trace = Trace()
    traced = model(a_source(), a_target(), Site(trace=trace)).log_softmax(-1)
    assert torch.allclose(traced, model(a_source(), a_target()).log_softmax(-1), atol=1e-5)
    maps = trace.maps()
    config = CONFIGS[name]
    if isinstance(config, TransformerConfig):
        assert len(maps) == config.encoder_layers + 2 * config.decoder_layers
    elif config.attention is not None:
        assert maps["decoder.cross"].shape == (3, config.attention.num_heads, 4, 5)
    for path, weights in maps.items():
        assert weights.shape[0] == 3, path
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5)


@EVERY
def test_greedy_is_a_beam_of_one_whatever_the_batch(name: str) -> None:
    model = build(CONFIGS[name]).double()
    together = decode(model, a_source(), Greedy(max_length=6))
    assert [h[0].tokens for h in decode(model, a_source(), Beam(max_length=6, size=1))] == [
        h[0].tokens for h in together
    ]
    for sentence, ((best,)) in zip(SOURCES, together, strict=True):
        ((alone,),) = decode(model, a_source([sentence]), Greedy(max_length=6))
        assert alone.tokens == best.tokens
        assert abs(alone.log_prob - best.log_prob) < 1e-10


def test_without_positions_permuted_input_gives_the_same_answer() -> None:
    model = build(CONFIGS["transformer-none"]).double()
    one, other = (model(a_source([s]), a_target(1)) for s in ([5, 6, 7, 8], [8, 5, 7, 6]))
    assert torch.allclose(one, other, atol=1e-12)
    model = build(CONFIGS["transformer-sinusoid"]).double()
    one, other = (model(a_source([s]), a_target(1)) for s in ([5, 6, 7, 8], [8, 5, 7, 6]))
    assert not torch.allclose(one, other, atol=1e-3)
