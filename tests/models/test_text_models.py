"""Models of text alone: GPT, Llama, the recurrent language model, BERT."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from regard.attention import Site
from regard.attention.config import PositionConfig
from regard.decode.config import Beam, Greedy
from regard.decode.search import decode
from regard.models.build import build
from regard.models.config import BertConfig, GptConfig, RecurrentTextConfig
from regard.models.presets import TEXT_PRESETS
from regard.rng import Key
from regard.shapes import Padded

WORDS = 23
SMALL: dict[str, Any] = {"vocabulary": WORDS, "width": 16, "num_layers": 2}


def small(name: str) -> Any:
    config = TEXT_PRESETS[name]()
    if isinstance(config, RecurrentTextConfig):
        return replace(config, **SMALL, embedding=12)
    heads = {"num_heads": 4, "num_kv_heads": 2 if name == "llama" else None}
    position = config.position if config.position.kind != "learned" else PositionConfig(kind="learned", max_length=24)
    return replace(config, **SMALL, **heads, hidden=20, position=position)


WRITERS = {name: small(name) for name in TEXT_PRESETS if name != "bert"}
WRITERS |= {
    kind: replace(WRITERS["gpt2"], position=PositionConfig(kind=kind)) for kind in ("alibi", "shaw", "sinusoid")
}
WRITERS |= {cell: replace(WRITERS["lstm"], cell=cell, tied=False) for cell in ("rnn", "gru")}


def some_text(rows: int = 4, length: int = 9) -> torch.Tensor:
    return torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(3))


def some_prompts() -> Padded:
    return Padded(some_text(), torch.tensor([9, 4, 1, 6]))


@pytest.mark.parametrize("name", WRITERS)
def test_learns_and_every_weight_has_a_gradient(name: str) -> None:
    model, text = build(WRITERS[name]), some_text()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(site: Site) -> torch.Tensor:
        return F.cross_entropy(model(text[:, :-1], site).flatten(0, 1), text[:, 1:].flatten())

    before = loss(Site()).item()
    for step in range(8):
        optimizer.zero_grad()
        loss(Site(key=Key(0, (step,)))).backward()
        optimizer.step()
    assert loss(Site()).item() < before
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]


@pytest.mark.parametrize("name", WRITERS)
@torch.no_grad()
def test_steps_equal_the_full_pass(name: str) -> None:
    model, text = build(WRITERS[name]).double(), some_text()
    wanted = model(text).log_softmax(-1)
    state = model.begin(text)
    for t, tokens in enumerate(text.unbind(1)):
        step = model.step(tokens, state)
        state = step.state
        assert torch.allclose(step.log_probs, wanted[:, t], atol=1e-12)


@pytest.mark.parametrize("name", WRITERS)
@torch.no_grad()
def test_ragged_prompts_equal_each_alone(name: str) -> None:
    model, prompts = build(WRITERS[name]).double(), some_prompts()
    last = prompts.tokens.gather(1, prompts.lengths[:, None] - 1)[:, 0]
    together = model.step(last, model.begin(prompts, prompts))
    order = torch.tensor([3, 1, 1])
    chosen = model.step(last[order], model.begin(prompts, prompts).select(order))
    for i, ids in enumerate(prompts.lists()):
        alone = model(torch.tensor([ids]))[0, -1].log_softmax(-1)
        assert torch.allclose(together.log_probs[i], alone, atol=1e-12)
    assert torch.allclose(chosen.log_probs, together.log_probs[order], atol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "lstm"])
def test_prompts_in_any_company_are_gone_on_with_alike(name: str) -> None:
    model, prompts = build(WRITERS[name]).double(), some_prompts()
    for search in (Greedy(max_length=6), Beam(size=3, max_length=6)):
        together = decode(model, prompts, search, prefix=prompts)
        for ids, found in zip(prompts.lists(), together, strict=True):
            one = Padded.of([ids])
            assert decode(model, one, search, prefix=one)[0][0].tokens == found[0].tokens


@pytest.mark.parametrize("name", ["gpt2", "llama", "alibi", "shaw"])
@torch.no_grad()
def test_documents_that_share_a_row_see_themselves_alone(name: str) -> None:
    model, text = build(WRITERS[name]).double(), some_text(1, 9)
    segments = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2]])
    state = replace(model.nothing_yet(1), segments=segments)
    packed = model.head(model.advance(text, state)[0])
    alone = torch.cat([model(text[:, segments[0] == i]) for i in range(3)], 1)
    assert torch.allclose(packed, alone, atol=1e-12)


@torch.no_grad()
def test_a_recurrent_model_carries_on() -> None:
    model, text = build(WRITERS["lstm"]).double(), some_text()
    first, state = model.advance(text[:, :4], model.nothing_yet(4))
    second, _ = model.advance(text[:, 4:], state)
    assert torch.allclose(model.head(torch.cat((first, second), 1)), model(text), atol=1e-12)


@torch.no_grad()
def test_bert_looks_both_ways_and_not_at_padding() -> None:
    model, texts = build(replace(small("bert"), next_sentence=True, pooler=True)).double(), some_prompts()
    parts = (torch.arange(9) > 2).long().expand(4, 9)
    found = model(replace(texts, segments=parts))
    assert model.follows(model.pooled(found)).shape == (4, 2)
    assert model.guess(found).shape == (4, 9, WORDS)
    for i, ids in enumerate(texts.lists()):
        alone = model(replace(Padded.of([ids]), segments=parts[:1, : len(ids)]))[0]
        assert torch.allclose(found[i, : len(ids)], alone, atol=1e-12)
    changed = texts.tokens.clone()
    changed[0, -1] = 3 + changed[0, -1] % (WORDS - 4)
    assert not torch.allclose(model(Padded(changed, texts.lengths, parts))[0, 0], found[0, 0])
    assert not torch.allclose(model(texts)[0, 5], found[0, 5])


@pytest.mark.parametrize(
    ("name", "vocabulary", "millions"), [("gpt1", 40478, 116), ("gpt2", 50257, 124), ("bert", 30522, 110)]
)
def test_presets_have_the_published_size(name: str, vocabulary: int, millions: int) -> None:
    config: Any = replace(TEXT_PRESETS[name](), vocabulary=vocabulary)  # type: ignore[call-arg]
    with torch.device("meta"):
        assert sum(p.numel() for p in build_bare(config).parameters()) / 1e6 == pytest.approx(millions, abs=1)


def build_bare(config: GptConfig | BertConfig) -> torch.nn.Module:
    from regard.models.build import MODELS

    model: torch.nn.Module = MODELS[type(config)](config)
    return model


@torch.no_grad()
def test_a_model_looks_back_no_further_than_it_learned_to() -> None:
    """Two layers of 4 tokens see 7 back; and step by step, by prompts of any length, the same comes out."""
    model, text = build(replace(WRITERS["llama"], context=4)).double(), some_text(3, 12)
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
