"""Readers: whatever reads and whatever is asked, what is held does not move, and all is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tasks.toys import DECODERS, EXAMPLES, READERS, batch_of, layout, made, reading, shaped, words
from torch import Tensor

from regard.data.tokenizer import Tokenizers
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import LayeredTextConfig
from regard.nn.lora import hold
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from regard.tasks.labelled.layout import Batch
from regard.tasks.labelled.start import settle_reader
from regard.tasks.labelled.task import answers

QUESTIONS = list(EXAMPLES)


def told(model: Any, batch: Batch) -> Tensor:
    return model.answer(model.see(batch.items), batch.groups)


@pytest.mark.parametrize("how", [{}, {"frozen": 1}, {"rank": 2}, {"rank": 2, "frozen": 1, "grown": True}], ids=repr)
@pytest.mark.parametrize("question", ["classification", "tagging"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_held_has_no_gradient(name: str, question: str, how: dict[str, Any]) -> None:
    """Resuming counts on it: a weight without a gradient has no moments to be saved."""
    model = made(name, question)
    if "rank" in how and not isinstance(model.config.trunk, LayeredTextConfig):
        with pytest.raises(UserError, match=r"train\.lora_rank .*frozen"):
            hold(model.trunk, **how)
        return
    hold(model.trunk, **how)
    task = reading(model.config, question)
    task.loss(model, task.load(task.largest()), None, Key(0, ("step",))).total.backward()
    assert not [n for n, p in model.named_parameters() if p.requires_grad != (p.grad is not None)]
    moving = {n for n, p in model.named_parameters() if p.requires_grad}
    assert {"head.weight", "head.bias"} <= moving
    assert ("trunk.embedding.table" in moving) == how.get("grown", not how)


@pytest.mark.parametrize("name", DECODERS)
def test_with_a_language_models_loss_its_own_head_learns(name: str) -> None:
    model = build(shaped(name, "classification"))
    settle_reader(model, auxiliary=True)
    task = reading(model.config, "classification", lm_loss_weight=0.5)
    task.loss(model, task.load(task.largest()), None, Key(0, ("step",))).total.backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.requires_grad]


@pytest.mark.parametrize("name", ["bert", "bert-mean", "elmo"])
def test_an_encoder_has_no_such_loss(name: str) -> None:
    with pytest.raises(UserError, match=r"train\.lm_loss_weight .* 0"):
        settle_reader(build(shaped(name, "classification")), auxiliary=True)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", READERS)
def test_a_folder_answers_as_what_was_saved(name: str, question: str, tmp_path: Path) -> None:
    model = made(name, question)
    save_tokenizers(tmp_path, Tokenizers(words(), words()))
    save_model(tmp_path, model, model.config.question, Greedy(), 24, {})
    loaded = load_folder(tmp_path)
    assert loaded.config == model.config
    assert (loaded.task, loaded.max_length) == (model.config.question, 24)
    some = EXAMPLES[question]
    assert answers(loaded.model, layout(loaded.config), some) == answers(model, layout(model.config), some)


@torch.no_grad()
def test_what_is_told_of_a_text_stands_where_the_papers_say() -> None:
    """BERT: at the first token, pooled; or the mean of all; GPT: at the last [Radford+ 2018, section 3.2]."""
    for name in ("bert", "bert-mean", "gpt", "recurrent_text"):
        model = made(name, "pairs").double()
        row = layout(model.config).frame([7, 8, 9], [10, 11])
        texts, segments = Padded.of([row[0]]), (torch.arange(len(row[0])) >= row[1]).long()[None]
        assert segments.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1]]
        if name == "bert":
            x = torch.tanh(model.trunk.pooler(model.trunk(replace(texts, segments=segments))[:, 0]))
        elif name == "bert-mean":
            x = model.trunk(texts).mean(1)
        else:
            x = model.trunk.advance(texts.tokens, model.trunk.nothing_yet(1))[0][:, -1]
        assert torch.allclose(model(replace(texts, segments=segments)), model.head(x), atol=1e-12)


@torch.no_grad()
def test_the_second_part_is_told_apart_where_there_are_segments() -> None:
    for name, differs in (("bert", True), ("bert-mean", False), ("gpt", False), ("elmo", True)):
        model = made(name, "pairs").double()
        batch = batch_of(model.config, "pairs")
        alike = replace(batch.items, segments=0 * batch.items.segments)
        assert torch.allclose(told(model, batch), model(alike)) != differs


@torch.no_grad()
def test_both_orders_of_a_pair_are_added() -> None:
    for name in ("bert", "gpt"):
        model = made(name, "pairs", symmetric=True).double()
        batch = batch_of(model.config, "pairs")
        assert batch.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        summary = model.see(batch.items).summary
        assert torch.allclose(told(model, batch), model.head(summary[::2] + summary[1::2]), atol=1e-12)
        turned = [e._replace(texts=e.texts[::-1]) for e in EXAMPLES["pairs"]]
        again = Batch.of(list(layout(model.config).units(turned)))
        assert torch.allclose(told(model, again), told(model, batch), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "question"), [("bert", "classification"), ("gpt", "choice"), ("bert", "tagging"), ("bert", "spans")]
)
def test_both_orders_are_refused_where_there_are_no_pairs(name: str, question: str) -> None:
    with pytest.raises(UserError, match=r"model\.symmetric .*pairs"):
        shaped(name, question, symmetric=True)


@pytest.mark.parametrize("question", ["classification", "pairs"])
@torch.no_grad()
def test_above_elmo_stands_what_glues_baseline_has(question: str) -> None:
    """By PyTorch's own layers, text by text: the mix of layers, BiLSTM, attention to the other part, BiLSTM, max."""
    model = made("elmo", question).double()
    upper, attention = model.upper, model.upper.attention
    upper.mix.scores.copy_(torch.tensor([0.3, -1.0, 0.7]))
    upper.mix.weight.fill_(1.3)
    batch = batch_of(model.config, question)
    for i, (row, found) in enumerate(zip(batch.rows, told(model, batch), strict=True)):
        second, width = row.second, model.config.trunk.out_width
        layers = torch.stack(model.trunk.layers(Padded.of([row.ids])))[:, 0]  # -> (layers, T, C)
        x = 1.3 * (torch.tensor([0.3, -1.0, 0.7]).double().softmax(0)[:, None, None] * layers).sum(0)
        x = upper.lower.layers[0](x[None])[0][0]
        q, k, v = attention.to_q(x), attention.to_k(x), attention.to_v(x)
        scores = q @ k.T / width**0.5
        part = torch.arange(len(x)) >= second
        if question == "pairs":
            scores[part[:, None] == part[None]] = -torch.inf
        looked = attention.to_out(scores.softmax(-1) @ v)
        x = upper.higher.layers[0](torch.cat((x, looked), -1)[None])[0][0]
        said = x.amax(0)
        if question == "pairs":
            u, v = x[:second].amax(0), x[second:].amax(0)
            said = torch.cat((u, v, (u - v).abs(), u * v))
        assert torch.allclose(found, model.head(said), atol=1e-12), i
