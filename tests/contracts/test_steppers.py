"""Contract 3 of every model that writes: stepping equals the full pass, rows travel alone, greedy is a beam of one."""

import torch
from torch.testing import assert_close

from regard.decode.config import Beam, Greedy
from regard.decode.search import decode
from tests.contracts.adapters import Writers
from tests.contracts.family import members

EVERY = members(lambda member: member.stepper)
EXACT = dict(atol=1e-12, rtol=0.0)


@EVERY
@torch.no_grad()
def test_stepping_equals_the_full_pass(member: Writers) -> None:
    model, inputs = member.build().double(), member.inputs.stretched(1)
    full = member.forward(model, inputs).log_softmax(-1)
    state = model.begin(inputs.texts)
    for t, tokens in enumerate(inputs.written.tokens.unbind(1)):
        step = model.step(tokens, state)
        state = step.state
        assert_close(step.log_probs, full[:, t], **EXACT)


@EVERY
@torch.no_grad()
def test_ragged_prefixes_equal_stepping_through_them(member: Writers) -> None:
    model, inputs = member.build().double(), member.inputs
    step = model.step(inputs.last, model.begin(inputs.texts, inputs.written))
    after = model.step(torch.tensor([5, 6, 7]), step.state).log_probs
    for i, said in enumerate(member.outputs(model, inputs)):
        assert_close(step.log_probs[i], said[-1].log_softmax(-1), **EXACT)
        longer = inputs.alone(i).followed(5 + i)
        assert_close(after[i], member.forward(model, longer).log_softmax(-1)[0, -1], **EXACT)


@EVERY
@torch.no_grad()
def test_rows_can_be_selected(member: Writers) -> None:
    """Reordered, repeated and dropped rows go on as if alone, whether they began together or not."""
    model, inputs = member.build().double(), member.inputs.stretched(1)
    tokens, full = inputs.written.tokens, member.forward(model, inputs).log_softmax(-1)
    rows = torch.tensor([2, 0, 2])
    state = model.step(tokens[:, 0], model.begin(inputs.texts)).state
    step = model.step(tokens[rows, 1], state.select(rows))
    assert_close(step.log_probs, full[rows, 1], **EXACT)
    alone = step.state.select(torch.tensor([0]))
    assert_close(model.step(tokens[2, 2:3], alone).log_probs[0], full[2, 2], **EXACT)
    step = model.step(inputs.last[rows], model.begin(inputs.texts, inputs.written).select(rows))
    assert_close(step.log_probs, full[rows, inputs.written.lengths[rows] - 1], **EXACT)


@EVERY
@torch.no_grad()
def test_greedy_is_a_beam_of_one_and_any_beam_the_same_whatever_the_batch(member: Writers) -> None:
    model, inputs = member.build().double(), member.inputs
    found = {}
    for search in (Greedy(max_length=6), Beam(max_length=6, size=1), Beam(max_length=6, size=3)):
        together = decode(model, inputs.texts, search, prefix=member.prompts(inputs))
        found[search] = [best[0].tokens for best in together]
        for i, best in enumerate(together):
            one = inputs.alone(i)
            ((alone, *_),) = decode(model, one.texts, search, prefix=member.prompts(one))
            assert alone.tokens == best[0].tokens
            assert abs(alone.log_prob - best[0].log_prob) < 1e-10
    greedy, beam, _ = found.values()
    assert greedy == beam
