"""Presets: the models of the papers, as plain functions that return their settings."""

from collections.abc import Callable
from dataclasses import replace

from regard.attention.config import PositionConfig
from regard.models.config import (
    BertConfig,
    GptConfig,
    RecurrentAttention,
    RecurrentConfig,
    RecurrentTextConfig,
    Seq2seqConfig,
    TextConfig,
    TransformerConfig,
)


def transformer_tiny() -> TransformerConfig:
    """4+4 layers of width 128: a model for small data and two cores."""
    config = TransformerConfig(width=128, hidden=256, num_heads=4, placement="pre", dropout=0.3)
    return replace(config, encoder_layers=4, decoder_layers=4)


def transformer_base() -> TransformerConfig:
    """The paper's base model: 6+6 layers of width 512 [Vaswani+ 2017, table 3]."""
    return TransformerConfig(dropout=0.1)


def transformer_big() -> TransformerConfig:
    """The paper's big model: width 1024, 16 heads [Vaswani+ 2017, table 3]."""
    return TransformerConfig(width=1024, hidden=4096, num_heads=16, dropout=0.3)


def recurrent_bahdanau() -> RecurrentConfig:
    """Additive attention from the previous state, a GRU pair as encoder [Bahdanau+ 2015]."""
    return RecurrentConfig(cell="gru", dropout=0.2)


def recurrent_luong() -> RecurrentConfig:
    """Bilinear attention from the current state, two LSTM layers [Luong+ 2015]."""
    attention = RecurrentAttention(score="bilinear", query="current")
    return replace(recurrent_plain(), encoder_layers=2, decoder_layers=2, attention=attention)


def recurrent_plain() -> RecurrentConfig:
    """No attention: the final state of the source is all that the decoder gets [Sutskever+ 2014]."""
    return RecurrentConfig(bidirectional=False, bridge="copy", attention=None, dropout=0.2)


def gpt1() -> GptConfig:
    """12 layers of width 768, norms after the residuals [Radford+ 2018, section 4.1]."""
    position = PositionConfig(kind="learned", max_length=512)
    shape = GptConfig(width=768, hidden=3072, num_heads=12, num_layers=12, position=position, activation="gelu_tanh")
    return replace(shape, dropout=0.1, attention_dropout=0.1)


def gpt2() -> GptConfig:
    """The small one: norms before the sub-layers, 1,024 tokens of context [Radford+ 2019, section 2.3]."""
    return replace(gpt1(), placement="pre", position=PositionConfig(kind="learned", max_length=1024))


def llama() -> GptConfig:
    """Rotary positions, RMS norms, gated feed-forward, shared key/value heads [Touvron+ 2023], of a small size."""
    shape = GptConfig(width=288, hidden=768, num_heads=6, num_kv_heads=3, num_layers=6, norm="rms", placement="pre")
    return replace(shape, activation="swiglu", bias=False, position=PositionConfig(kind="rotary", layout="halves"))


def bert() -> BertConfig:
    """The base model [Devlin+ 2019, section 3]."""
    shape = BertConfig(width=768, hidden=3072, num_heads=12, num_layers=12, activation="gelu", norm_eps=1e-12)
    return replace(shape, position=PositionConfig(kind="learned", max_length=512), dropout=0.1, attention_dropout=0.1)


def lstm() -> RecurrentTextConfig:
    """Two layers with dropout between, the medium one of [Zaremba+ 2014, section 4.1]."""
    return RecurrentTextConfig(embedding=650, width=650, num_layers=2, dropout=0.5)


SEQ2SEQ = (transformer_tiny, transformer_base, transformer_big, recurrent_bahdanau, recurrent_luong, recurrent_plain)
PRESETS: dict[str, Callable[[], Seq2seqConfig]] = {make.__name__: make for make in SEQ2SEQ}
TEXT_PRESETS: dict[str, Callable[[], TextConfig]] = {make.__name__: make for make in (gpt1, gpt2, llama, bert, lstm)}
