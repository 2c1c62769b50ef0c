"""Contract 6, second half: Marian's and BART's weights in our Transformer say what they say in Hugging Face's."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, MarianConfig, MarianMTModel

from regard.decode.config import Beam, Greedy
from regard.decode.search import decode
from regard.exchange.huggingface import read_folder
from regard.shapes import Padded

SHAPES = {
    "tiny": dict(d_model=32, layers=2, heads=4, ffn=48, vocabulary=61),
    "odd": dict(d_model=24, layers=3, heads=3, ffn=20, vocabulary=53),
    "base": dict(d_model=512, layers=6, heads=8, ffn=2048, vocabulary=1000),
}
KINDS = ["marian", "bart"]


def foreign(kind: str, shape: str) -> Any:
    """A model of theirs with random weights, large enough for its words to differ in probability."""
    size = SHAPES[shape]
    shared: dict[str, Any] = dict(
        vocab_size=size["vocabulary"], d_model=size["d_model"], max_position_embeddings=40,
        encoder_layers=size["layers"], decoder_layers=size["layers"],
        encoder_attention_heads=size["heads"], decoder_attention_heads=size["heads"],
        encoder_ffn_dim=size["ffn"], decoder_ffn_dim=size["ffn"],
        pad_token_id=0, bos_token_id=1, eos_token_id=2, forced_eos_token_id=None,
        scale_embedding=kind == "marian", init_std=0.6 if shape != "base" else 0.1,
    )  # fmt: skip
    torch.manual_seed(5)
    if kind == "marian":
        config = MarianConfig(**shared, decoder_start_token_id=0, activation_function="swish")
        theirs: Any = MarianMTModel(config)
    else:
        theirs = BartForConditionalGeneration(BartConfig(**shared, decoder_start_token_id=2))
    theirs.final_logits_bias.normal_(0.0, 0.1)
    theirs.generation_config.forced_eos_token_id = None
    return theirs.eval()


def ours(theirs: Any) -> Any:
    """Their weights under our names, by way of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return read_folder(Path(folder)).model.to(theirs.dtype)


def random_sources(vocabulary: int, count: int) -> Padded:
    draw = torch.Generator().manual_seed(9)
    lengths = torch.randint(2, 20, (count,), generator=draw).tolist()
    return Padded.of([[*torch.randint(3, vocabulary, (n,), generator=draw).tolist(), 2] for n in lengths])


def attention_mask(source: Padded) -> Tensor:
    return (torch.arange(source.tokens.shape[1])[None] < source.lengths[:, None]).long()


def cut(tokens: list[int], end: int) -> list[int]:
    """Their rows without the start token, up to the end mark."""
    said = tokens[1:]
    return said[: said.index(end) + 1] if end in said else said


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_logits_are_equal(kind: str, shape: str) -> None:
    theirs = foreign(kind, shape)
    model = ours(theirs)
    source = random_sources(theirs.config.vocab_size, 16)
    target = random_sources(theirs.config.vocab_size, 16).tokens
    target[:, 0] = model.start
    reference = theirs(input_ids=source.tokens, attention_mask=attention_mask(source), decoder_input_ids=target).logits
    difference = float((model(source, target) - reference).abs().max())
    print(f"\n{kind} {shape}: largest difference {difference:.1e}, standard deviation {reference.std():.1f}")
    assert difference <= 1e-5


@pytest.mark.parametrize("shape", ["tiny", "odd", pytest.param("base", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
@torch.no_grad()
def test_greedy_tokens_are_identical(kind: str, shape: str, count: int) -> None:
    theirs = foreign(kind, shape)
    source = random_sources(theirs.config.vocab_size, count)
    found = theirs.generate(
        input_ids=source.tokens, attention_mask=attention_mask(source), num_beams=1, do_sample=False, max_new_tokens=12
    )
    mine = decode(ours(theirs), source, Greedy(max_length=12))
    assert [h[0].tokens for h in mine] == [cut(row, 2) for row in found.tolist()]
    assert len({tuple(h[0].tokens) for h in mine}) > count / 10, "outputs that all look alike would prove little"


@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("shape", ["tiny", "odd"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_beam_5_is_identical_in_float64(kind: str, shape: str, penalty: float) -> None:
    theirs = foreign(kind, shape).double()
    source = random_sources(theirs.config.vocab_size, 100)
    found = theirs.generate(
        input_ids=source.tokens, attention_mask=attention_mask(source), num_beams=5, do_sample=False,
        max_new_tokens=12, early_stopping="never", length_penalty=penalty,
        output_scores=True, return_dict_in_generate=True,
    )  # fmt: skip
    mine = decode(ours(theirs), source, Beam(size=5, max_length=12, length_penalty=penalty))
    assert [h[0].tokens for h in mine] == [cut(row, 2) for row in found.sequences.tolist()]
    scores = torch.tensor([h[0].score for h in mine])
    assert torch.allclose(scores, found.sequences_scores.float(), atol=1e-5)  # they add up in float32
