"""The rivals, each as its own users would train it, with every advantage that it can have.

All: batches of one length that are tensors already, one table of words, fused AdamW, dropout at embeddings, attention
weights, sub-layers' outputs and inside feed-forward layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from bench.training.shapes import BETAS, CLIP, DROPOUT, END, EPSILON, PADDING, RATE, SMOOTHING, START, VOCABULARY, Shape
from bench.training.worker import Contender
from torch import Tensor, nn
from torch.nn import functional as F

LONGEST = 256


def batches(shape: Shape) -> list[tuple[Tensor, Tensor]]:
    """Sources, and targets between START and END."""
    with np.load(shape.batches) as found:
        count = len(found.files) // 2
        return [(torch.from_numpy(found[f"source{i}"]), torch.from_numpy(found[f"target{i}"])) for i in range(count)]


def trained(model: nn.Module, read: list[Any], loss: Callable[[Any], Tensor], tokens: list[int]) -> Contender:
    """A usual loop around a model whose loss is the mean of a batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=0.0, fused=True)
    model.train()

    def update(step: int) -> tuple[float, int]:
        i = step % len(read)
        optimizer.zero_grad(set_to_none=True)
        mean = loss(read[i])
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return mean.item(), tokens[i]

    return Contender(model, update)


def count(target: Tensor) -> int:
    return int((target[:, 1:] != PADDING).sum())


def smoothed(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING)


class Plain(nn.Module):
    """`nn.Transformer` between a table of words and the same table, norms before the sub-layers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, shape.width)
        nn.init.normal_(self.words.weight, std=shape.width**-0.5)
        self.trunk = nn.Transformer(
            shape.width,
            shape.heads,
            shape.layers,
            shape.layers,
            shape.hidden,
            DROPOUT,
            batch_first=True,
            norm_first=True,
        )
        self.dropout = nn.Dropout(DROPOUT)
        steps = torch.arange(LONGEST)[:, None] * 1e4 ** -(torch.arange(0, shape.width, 2) / shape.width)
        self.register_buffer("positions", torch.stack((steps.sin(), steps.cos()), -1).flatten(1))
        self.register_buffer("future", torch.ones(LONGEST, LONGEST, dtype=torch.bool).triu(1))

    def embed(self, tokens: Tensor) -> Tensor:
        words = self.words(tokens) * self.words.embedding_dim**0.5
        return self.dropout(words + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        steps, padding = given.shape[1], source == PADDING
        x = self.trunk(
            self.embed(source),
            self.embed(given),
            tgt_mask=self.future[:steps, :steps],
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(x, self.words.weight)


def plain(shape: Shape) -> Contender:
    model, read = Plain(shape), batches(shape)

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        source, target = batch
        return smoothed(model(source, target[:, :-1]), target[:, 1:])

    return trained(model, read, loss, [count(target) for _, target in read])


def marian(shape: Shape) -> Contender:
    """Its own loss has no label smoothing; PyTorch's, on its logits, is the fastest that has."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=LONGEST,
        d_model=shape.width,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.hidden,
        decoder_ffn_dim=shape.hidden,
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        activation_dropout=DROPOUT,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PADDING,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=END,
        decoder_start_token_id=START,
        use_cache=False,
    )
    model = MarianMTModel(config)
    read = [(source, (source != PADDING).long(), target) for source, target in batches(shape)]

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        source, mask, target = batch
        logits = model(source, attention_mask=mask, decoder_input_ids=target[:, :-1], use_cache=False).logits
        return smoothed(logits, target[:, 1:])

    return trained(model, read, loss, [count(target) for *_, target in read])


def joeynmt(shape: Shape) -> Contender:
    """Its model and its loss, a divergence: the entropy of the smoothed labels is added to what is told of it."""
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
    )  # fmt: skip
    words = Vocabulary([f"w{i}" for i in range(VOCABULARY - 4)], special)
    model = build_model(_joeynmt_model(shape), words, words)
    model.loss_function = ("crossentropy", SMOOTHING)
    ids = torch.arange(VOCABULARY)
    ids[:4] = torch.tensor([1, 2, 3, 0])  # its padding, start, end and unknown

    read = []
    for source, target in batches(shape):
        lengths, cpu = (source != PADDING).sum(1), torch.device("cpu")
        indices = torch.arange(len(source))
        batch = Batch(ids[source], lengths, None, ids[target], None, indices, cpu, words.pad_index, words.eos_index)
        batch.sort_by_src_length()
        read.append(batch)

    def loss(batch: Any) -> Tensor:
        total, _, _, _ = model(return_type="loss", **vars(batch))
        return batch.normalize(total, "tokens")

    learner = trained(model, read, loss, [batch.ntokens for batch in read])
    sure, each = 1 - SMOOTHING, SMOOTHING / (VOCABULARY - 2)
    entropy = -sure * math.log(sure) - SMOOTHING * math.log(each)

    def update(step: int) -> tuple[float, int]:
        divergence, tokens = learner.update(step)
        return divergence + entropy, tokens

    return Contender(model, update)


def _joeynmt_model(shape: Shape) -> dict[str, Any]:
    side: dict[str, Any] = {
        "embeddings": {"embedding_dim": shape.width, "dropout": DROPOUT, "scale": shape.score is None},
        "num_layers": shape.layers,
        "hidden_size": shape.width,
        "dropout": DROPOUT,
    }
    tied = {"tied_embeddings": True, "tied_softmax": True}
    if shape.score is None:
        side |= {"type": "transformer", "ff_size": shape.hidden, "num_heads": shape.heads, "layer_norm": "pre"}
        return {"encoder": side, "decoder": side, **tied}
    side |= {"type": "recurrent", "rnn_type": "lstm"}
    looks = {
        "attention": {"additive": "bahdanau", "bilinear": "luong"}[shape.score],
        "input_feeding": shape.score == "additive",
        "hidden_dropout": DROPOUT,
        "init_hidden": "bridge",
    }
    # Its encoder's width is that of a direction.
    reads = {"bidirectional": True, "hidden_size": shape.width // 2}
    return {"encoder": {**side, **reads}, "decoder": {**side, **looks}, **tied}


RIVALS = {"JoeyNMT": joeynmt, "Marian": marian, "nn.Transformer": plain}
