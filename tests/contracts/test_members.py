"""Contracts 2 and 3 of every model: padding changes nothing, a trace says the same, order is known by positions."""

from dataclasses import replace
from typing import get_args

import torch
from torch.testing import assert_close

from regard.attention import Site, Trace
from regard.attention.multihead import MultiheadAttention
from regard.models.build import MODELS
from regard.models.config import GptConfig, ReaderConfig, Trunk
from regard.shapes import Padded
from regard.tasks.registry import TASKS
from tests.contracts.family import MEMBERS, QUESTIONS, TRUNKS, Member, members

EXACT = dict(atol=1e-12, rtol=0.0)


def test_every_kind_of_model_trunk_and_question_has_members() -> None:
    kinds = {type(member.config): member for member in MEMBERS.values()}
    assert kinds.keys() == MODELS.keys()
    for member in kinds.values():
        assert hasattr(member.build(), "step") == member.stepper, "under the contract of Steppers if it is one"
    assert {type(settings["trunk"]) for settings in TRUNKS.values()} == {*get_args(Trunk)}
    labelled = {name for name, task in TASKS.items() if task.models is ReaderConfig}
    asked = {ReaderConfig(**settings).question for settings in QUESTIONS.values()}
    assert labelled == asked


@members()
@torch.no_grad()
def test_a_padded_batch_equals_its_members_alone_whatever_the_padding(member: Member) -> None:
    model, inputs = member.build().double(), member.inputs
    assert len({*inputs.texts.lengths.tolist()}) == 3
    together, stretched = member.outputs(model, inputs), member.outputs(model, inputs.stretched())
    for i, (one, other) in enumerate(zip(together, stretched, strict=True)):
        (alone,) = member.outputs(model, inputs.alone(i))
        assert_close(one, alone, **EXACT)
        assert_close(other, alone, **EXACT)


@members()
def test_padding_has_no_gradient(member: Member) -> None:
    model, inputs, trace = member.build().double(), member.inputs, Trace(inputs={})
    member.loss(model, inputs, Site(trace=trace)).backward()
    assert trace.inputs
    for path, vectors in trace.inputs.items():
        words = member.words(path, inputs)
        real = torch.arange(words.values.shape[1]) < words.lengths[:, None]
        assert vectors.grad is not None, path
        assert torch.equal(vectors.grad.any(-1), real), path  # exactly 0 at padding, and nowhere else


@members()
@torch.no_grad()
def test_a_traced_pass_says_the_same_and_its_rows_sum_to_one(member: Member) -> None:
    model, inputs, trace = member.build(), member.inputs, Trace()  # float32: the promise is 1e-5
    traced = member.outputs(model, inputs, Site(trace=trace))
    assert_close(traced, member.outputs(model, inputs), atol=1e-5, rtol=1e-5)
    maps = trace.maps()
    heads = [module.config.num_heads for module in model.modules() if isinstance(module, MultiheadAttention)]
    assert sorted(weights.shape[1] for weights in maps.values()) == sorted(heads)
    for path, weights in maps.items():
        rows, columns = member.axes(path, inputs)
        assert weights.shape[::2] == rows.values.shape[:2], path
        assert weights.shape[3] == columns.values.shape[1], path
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0.0)
        for each, t, s in zip(weights, rows.lengths, columns.lengths, strict=True):
            assert not each[:, :t, s:].any(), path


def looks_both_ways(member: Member) -> bool:
    return member.family == "seq2seq" or getattr(member.config, "trunk", member.config).both_ways


@members(looks_both_ways)
@torch.no_grad()
def test_without_positions_permuted_input_gives_the_same_answers_and_only_then(member: Member) -> None:
    model, inputs = member.build().double(), member.inputs.alone(0)
    straight, rolled = (member.forward(model, each)[0] for each in (inputs, inputs.rolled(2)))
    if member.family != "seq2seq" and member.of_tokens:
        rolled = rolled.roll(-2, 0)
    if member.orderless:
        assert_close(straight, rolled, **EXACT)
    else:
        assert (straight - rolled).abs().max() > 1e-4


@members(lambda member: isinstance(member.config, GptConfig))
@torch.no_grad()
def test_one_layer_that_looks_back_knows_the_order_by_its_positions_alone(member: Member) -> None:
    config = replace(member.config, num_layers=1, context=None)
    model, inputs = replace(member, config=config).build().double(), member.inputs.alone(0)
    tokens = inputs.written.tokens
    turned = replace(
        inputs, written=Padded(torch.cat((tokens[:, :-1].flip(1), tokens[:, -1:]), 1), inputs.texts.lengths)
    )
    difference = (member.forward(model, inputs) - member.forward(model, turned))[0, -1].abs().max()
    assert (difference < 1e-12) == member.orderless
