"""Settings of models, free of torch; presets are plain functions that return them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from regard.attention.config import AttentionConfig, PositionConfig
from regard.errors import UserError
from regard.nn.config import DERIVED, RecurrentLayersConfig, StackConfig, check_rates


@dataclass(frozen=True, kw_only=True)
class Seq2seqConfig:
    """What every encoder-decoder has."""

    source_vocabulary: int = field(default=0, metadata=DERIVED)
    """Words, counted by the tokenizer; 0 while there is none."""
    target_vocabulary: int = field(default=0, metadata=DERIVED)
    tied: Literal["all", "output", "none"] = "none"
    """Word tables that are one: source, target and output; target and output; or none."""
    dropout: float = 0.0
    """Of embeddings and of each sub-layer's output."""
    start: int = field(default=1, metadata=DERIVED)
    """The token that precedes every output."""
    end: int = field(default=2, metadata=DERIVED)
    """The token that ends every output."""

    def __post_init__(self) -> None:
        check_rates(dropout=self.dropout)
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            raise UserError(
                f"tied: all of {self.source_vocabulary} and {self.target_vocabulary} words; use tied: output"
            )
        for name in ("start", "end"):
            if self.target_vocabulary and not 0 <= getattr(self, name) < self.target_vocabulary:
                raise UserError(f"{name} token {getattr(self, name)} is outside {self.target_vocabulary} words")

    def sized(self, source_vocabulary: int, target_vocabulary: int) -> Self:
        """The same, for vocabularies of so many words."""
        return replace(self, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Seq2seqConfig, StackConfig):
    """The Transformer encoder-decoder [Vaswani+ 2017]."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: int = 6
    decoder_layers: int = 6
    scaled_embedding: bool = True
    embedding_norm: bool = False
    output_bias: bool = False

    def __post_init__(self) -> None:
        Seq2seqConfig.__post_init__(self)
        StackConfig.__post_init__(self)
        if min(self.encoder_layers, self.decoder_layers) < 1:
            raise UserError(f"{self.encoder_layers} encoder and {self.decoder_layers} decoder layers; use 1 or more")


@dataclass(frozen=True, kw_only=True)
class RecurrentAttention:
    """How a recurrent decoder looks at its source."""

    score: str = "additive"
    score_hidden: tuple[int, ...] = ()
    num_heads: int = 1
    projection: tuple[int, ...] | None = None
    """Hidden widths of the maps to query, key and value: () is linear, None uses the states as they are."""
    query: Literal["previous", "current"] = "previous"
    """previous: s(t-1) looks, and the cell takes in what it saw (Bahdanau); current: s(t) looks (Luong)."""
    query_word: bool = False
    """Whether the input word is part of the query."""


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Seq2seqConfig):
    """The recurrent encoder-decoder, with attention [Bahdanau+ 2015; Luong+ 2015] or without [Sutskever+ 2014]."""

    kind: Literal["recurrent"] = "recurrent"
    embedding: int = 256
    width: int = 256
    """Of the decoder's state and of the encoder's, both directions together."""
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    encoder_layers: int = 1
    decoder_layers: int = 1
    bidirectional: bool = True
    residual: bool = False
    attention: RecurrentAttention | None = RecurrentAttention()
    encoding: Literal["first", "every"] = "first"
    """Without attention: the source's final state is given once, or at every step."""
    bridge: Literal["linear", "copy"] = "linear"
    """From the encoder's final state to the decoder's first: learned, or as it is."""
    readout: bool = field(default=True, metadata=DERIVED)
    """Whether words are told from tanh(W [s; c]), or from [s; c] as it is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bidirectional and self.width % 2:
            raise UserError(f"width {self.width} cannot be shared by two directions; try {self.width + 1}")
        if not self.readout and self.tied != "none":
            raise UserError(f"without a readout, words are told by a table of their own; tied: {self.tied} has none")
        if self.bridge == "copy" and self.encoder_layers != self.decoder_layers:
            raise UserError(
                f"bridge: copy from {self.encoder_layers} to {self.decoder_layers} layers; use as many, or linear"
            )
        if self.attention is not None and self.encoding != "first":
            raise UserError("encoding: every is for models without attention; drop it, or set attention: null")
        _ = self.encoder, self.decoder  # their rules hold for these fields too

    @property
    def encoder(self) -> RecurrentLayersConfig:
        return RecurrentLayersConfig(
            cell=self.cell,
            input_width=self.embedding,
            width=self.width // 2 if self.bidirectional else self.width,
            num_layers=self.encoder_layers,
            bidirectional=self.bidirectional,
            residual=self.residual,
            dropout=self.dropout,
        )

    @property
    def decoder(self) -> RecurrentLayersConfig:
        takes_in = self.attention.query == "previous" if self.attention else self.encoding == "every"
        return RecurrentLayersConfig(
            cell=self.cell,
            input_width=self.embedding + (self.context_width if takes_in else 0),
            width=self.width,
            num_layers=self.decoder_layers,
            residual=self.residual,
            dropout=self.dropout,
        )

    @property
    def looking(self) -> AttentionConfig | None:
        if self.attention is None:
            return None
        return AttentionConfig(
            width=self.width + (self.embedding if self.attention.query_word else 0),
            memory_width=self.width,
            num_heads=self.attention.num_heads,
            score=self.attention.score,
            score_hidden=self.attention.score_hidden,
            projection=self.attention.projection,
        )

    @property
    def context_width(self) -> int:
        """Of what the decoder is told of the source at each step."""
        if self.looking is None:
            return self.width if self.encoding == "every" else 0
        return self.looking.out_width


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """What every model of text alone has."""

    vocabulary: int = field(default=0, metadata=DERIVED)
    """Words, counted by the tokenizer; 0 while there is none."""
    tied: bool = True
    """Whether words that are read and words that are said share one table."""
    dropout: float = 0.0
    """Of embeddings and of each sub-layer's output."""
    start: int = field(default=2, metadata=DERIVED)
    """The token that precedes every text: in one stream, the end of the text before."""
    end: int = field(default=2, metadata=DERIVED)
    """The token that ends every text."""

    def sized(self, vocabulary: int, start: int = 2, end: int = 2, context: int | None = None) -> Self:
        """The same, for so many words, marks of these numbers, and texts of so many tokens."""
        return replace(self, vocabulary=vocabulary, start=start, end=end)

    def __post_init__(self) -> None:
        check_rates(dropout=self.dropout)
        for name in ("start", "end"):
            if self.vocabulary and not 0 <= getattr(self, name) < self.vocabulary:
                raise UserError(f"{name} token {getattr(self, name)} is outside {self.vocabulary} words")


@dataclass(frozen=True, kw_only=True)
class LayeredTextConfig(TextConfig, StackConfig):
    """One Stack over text."""

    num_layers: int = 4

    def __post_init__(self) -> None:
        TextConfig.__post_init__(self)
        StackConfig.__post_init__(self)
        if self.num_layers < 1:
            raise UserError(f"num_layers {self.num_layers}; use 1 or more")


@dataclass(frozen=True, kw_only=True)
class GptConfig(LayeredTextConfig):
    """A decoder alone [Radford+ 2018; 2019]; with rotary positions, RMS norms and gates, Llama [Touvron+ 2023]."""

    kind: Literal["gpt"] = "gpt"
    context: int | None = field(default=None, metadata=DERIVED)
    """Tokens that each sees at most, itself among them; beyond the distances that it has learned, it would be lost."""

    def sized(self, vocabulary: int, start: int = 2, end: int = 2, context: int | None = None) -> Self:
        return replace(super().sized(vocabulary, start, end), context=context)


@dataclass(frozen=True, kw_only=True)
class BertConfig(LayeredTextConfig):
    """An encoder alone [Devlin+ 2019]."""

    kind: Literal["bert"] = "bert"
    mask: int = field(default=4, metadata=DERIVED)
    """The token that stands for a word that was taken out."""
    segments: int = 2
    """Parts of a text that are told apart; 0 tells none."""
    embedding_norm: bool = True
    next_sentence: bool = False
    """Whether it learns to tell if the second part of a text follows the first."""
    pooler: bool = field(default=False, metadata=DERIVED)
    guesses: bool = field(default=True, metadata=DERIVED)
    """Whether it can guess words; an encoder that was made elsewhere may not."""
    pooling: Literal["mean", "first"] = field(default="mean", metadata=DERIVED)
    """How the vectors of its tokens make one of a text: by their mean, or by the first alone."""

    def sized(self, vocabulary: int, start: int = 1, end: int = 2, context: int | None = None, mask: int = 4) -> Self:
        """The same, for so many words, and control tokens of these numbers."""
        pooler = self.pooler or self.next_sentence  # which is told from the pooled vector
        return replace(self, vocabulary=vocabulary, start=start, end=end, mask=mask, pooler=pooler)


@dataclass(frozen=True, kw_only=True)
class RecurrentTextConfig(TextConfig):
    """Recurrent layers alone, which carry their state from text to text."""

    kind: Literal["recurrent_text"] = "recurrent_text"
    embedding: int = 256
    width: int = 256
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    num_layers: int = 1

    @property
    def layers(self) -> RecurrentLayersConfig:
        return RecurrentLayersConfig(
            cell=self.cell,
            input_width=self.embedding,
            width=self.width,
            num_layers=self.num_layers,
            dropout=self.dropout,
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


ModelConfig = TransformerConfig | RecurrentConfig | GptConfig | BertConfig | RecurrentTextConfig
TEXT_PRESETS: dict[str, Callable[[], TextConfig]] = {
    "gpt1": gpt1,
    "gpt2": gpt2,
    "llama": llama,
    "bert": bert,
    "lstm": lstm,
}
PRESETS: dict[str, Callable[[], Seq2seqConfig]] = {
    "transformer_tiny": transformer_tiny,
    "transformer_base": transformer_base,
    "transformer_big": transformer_big,
    "recurrent_bahdanau": recurrent_bahdanau,
    "recurrent_luong": recurrent_luong,
    "recurrent_plain": recurrent_plain,
}
