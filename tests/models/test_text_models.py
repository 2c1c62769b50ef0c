"""What is specific to models of text alone: documents in one row, a state that is carried, context, published sizes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.contracts.family import MEMBERS, Member, members

from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.models.build import MODELS, build
from regard.models.config import GptConfig, TextConfig
from regard.models.presets import TEXT_PRESETS
from regard.shapes import Padded

WORDS = 11


def some_text(rows: int = 4, length: int = 9) -> torch.Tensor:
    return torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(3))


@members(lambda member: isinstance(member.config, GptConfig))
@torch.no_grad()
def test_documents_that_share_a_row_see_themselves_alone(member: Member) -> None:
    model, text = member.build().double(), some_text(1, 9)
    segments = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2]])
    state = replace(model.nothing_yet(1), segments=segments)
    packed = model.head(model.advance(text, state)[0])
    alone = torch.cat([model(text[:, segments[0] == i]) for i in range(3)], 1)
    assert torch.allclose(packed, alone, atol=1e-12)


@torch.no_grad()
def test_a_recurrent_model_carries_on() -> None:
    model, text = MEMBERS["writers/preset-lstm"].build().double(), some_text()
    first, state = model.advance(text[:, :4], model.nothing_yet(4))
    second, _ = model.advance(text[:, 4:], state)
    assert torch.allclose(model.head(torch.cat((first, second), 1)), model(text), atol=1e-12)


@members(lambda member: isinstance(member.config, TextConfig))
def test_words_that_are_read_and_said_share_a_table_if_tied(member: Member) -> None:
    model = member.build()
    head = model.head if hasattr(model, "head") else model.guess and model.guess.head
    assert head is None or (head.table is model.embedding.table) == member.config.tied


@torch.no_grad()
def test_bert_sees_what_comes_later_and_which_part_it_is_in() -> None:
    member = MEMBERS["encoders/bert-next-sentence"]
    model, inputs = member.build(), member.inputs
    tokens = inputs.texts.tokens.clone()
    tokens[0, -1] = 3
    later = replace(inputs, texts=Padded(tokens, inputs.texts.lengths))
    one_part = replace(inputs, segments=0 * inputs.segments)
    first, *others = (member.forward(model, each)[0, 0] for each in (inputs, later, one_part))
    assert not any(torch.allclose(first, other) for other in others)


@pytest.mark.parametrize(
    ("name", "vocabulary", "millions"), [("gpt1", 40478, 116), ("gpt2", 50257, 124), ("bert", 30522, 110)]
)
def test_presets_have_the_published_size(name: str, vocabulary: int, millions: int) -> None:
    config: Any = replace(TEXT_PRESETS[name](), vocabulary=vocabulary)  # type: ignore[call-arg]
    with torch.device("meta"):
        model = MODELS[type(config)](config)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=1)


@torch.no_grad()
def test_a_model_looks_back_no_further_than_it_learned_to() -> None:
    """Two layers of 4 tokens see 7 back; and step by step, by prompts of any length, the same comes out."""
    model, text = build(replace(MEMBERS["writers/preset-llama"].config, context=4)).double(), some_text(3, 12)
    changed = text.clone()
    changed[:, 4] = (text[:, 4] - 3 + 1) % (WORDS - 3) + 3
    same = (model(text) - model(changed)).abs().amax((0, 2)) == 0
    assert same.tolist() == [True] * 4 + [False] * 7 + [True]
    ends = Padded(text, torch.tensor([12, 5, 9]))
    found = decode(model, ends, Greedy(max_length=6), prefix=ends)
    for row, (best,) in zip(ends.lists(), found, strict=True):
        for _ in best.tokens:
            row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
        assert row[-len(best.tokens) :] == best.tokens
