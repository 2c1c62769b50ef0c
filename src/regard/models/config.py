"""Settings of models, free of torch; presets are plain functions that return them."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from regard.attention.config import AttentionConfig, PositionConfig
from regard.data.config import InputConfig
from regard.errors import UserError
from regard.nn.config import DERIVED, Bounded, RecurrentLayersConfig, StackConfig


@dataclass(frozen=True, kw_only=True)
class Seq2seqConfig(Bounded):
    """What every encoder-decoder has."""

    both_ways: ClassVar[bool] = False
    source_vocabulary: int = field(default=0, metadata=DERIVED)
    """Words, counted by the tokenizer; 0 while there is none."""
    target_vocabulary: int = field(default=0, metadata=DERIVED)
    front: InputConfig | None = field(default=None, metadata=DERIVED)
    """What goes in, if it is not text."""
    tied: Literal["all", "output", "none"] = "none"
    """Word tables that are one: source, target and output; target and output; or none."""
    dropout: float = 0.0
    """Of embeddings and of each sub-layer's output."""
    start: int = field(default=1, metadata=DERIVED)
    """The token that precedes every output."""
    end: int = field(default=2, metadata=DERIVED)
    """The token that ends every output."""

    def __post_init__(self) -> None:
        super().__post_init__()
        source, target = self.source_vocabulary, self.target_vocabulary
        if self.tied == "all" and source != target:
            raise UserError(f"tied: all of {source} and {target} words; use tied: output")
        for name in ("start", "end"):
            if target and not 0 <= getattr(self, name) < target:
                raise UserError(f"{name} token {getattr(self, name)} is outside {target} words")

    def sized(self, source_vocabulary: int, target_vocabulary: int, front: InputConfig | None = None) -> Self:
        """The same, for vocabularies of so many words, or for another source than text."""
        return replace(self, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, front=front)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Seq2seqConfig, StackConfig):
    """The Transformer encoder-decoder [Vaswani+ 2017]."""

    context: ClassVar[int | None] = None
    kind: Literal["transformer"] = "transformer"
    encoder_layers: int = 6
    decoder_layers: int = 6
    scaled_embedding: bool = True
    embedding_norm: bool = field(default=False, metadata=DERIVED)
    output_bias: bool = field(default=False, metadata=DERIVED)


@dataclass(frozen=True, kw_only=True)
class RecurrentAttention(Bounded):
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
            layers = f"{self.encoder_layers} to {self.decoder_layers} layers"
            raise UserError(f"bridge: copy from {layers}; use as many, or linear")
        if self.attention is not None and self.encoding != "first":
            raise UserError("encoding: every is for models without attention; drop it, or set attention: null")
        _ = self.encoder, self.decoder  # their rules hold for these fields too

    @property
    def encoder(self) -> RecurrentLayersConfig:
        width = self.width // 2 if self.bidirectional else self.width
        layers = self._layers(self.embedding, width, self.encoder_layers)
        return replace(layers, bidirectional=self.bidirectional)

    @property
    def decoder(self) -> RecurrentLayersConfig:
        takes_in = self.attention.query == "previous" if self.attention else self.encoding == "every"
        input_width = self.embedding + (self.context_width if takes_in else 0)
        return self._layers(input_width, self.width, self.decoder_layers)

    def _layers(self, input_width: int, width: int, num_layers: int) -> RecurrentLayersConfig:
        shape = RecurrentLayersConfig(cell=self.cell, input_width=input_width, width=width, num_layers=num_layers)
        return replace(shape, residual=self.residual, dropout=self.dropout)

    @property
    def looking(self) -> AttentionConfig | None:
        if self.attention is None:
            return None
        width = self.width + (self.embedding if self.attention.query_word else 0)
        same = {name: getattr(self.attention, name) for name in ("num_heads", "score", "score_hidden", "projection")}
        return AttentionConfig(width=width, memory_width=self.width, **same)

    @property
    def context_width(self) -> int:
        """Of what the decoder is told of the source at each step."""
        if self.looking is None:
            return self.width if self.encoding == "every" else 0
        return self.looking.out_width


@dataclass(frozen=True, kw_only=True)
class TextConfig(Bounded):
    """What every model of text alone has."""

    encoder_layers: ClassVar[int] = 0
    """There is no source."""
    both_ways: ClassVar[bool] = False
    """Whether a token sees those after it."""
    mixed: ClassVar[bool] = False
    """Whether what reads its vectors mixes those of all layers."""
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
    least_mark: ClassVar[int] = 0  # -1, which stands for none, where a model can do without

    def sized(self, vocabulary: int, start: int = 2, end: int = 2, context: int | None = None) -> Self:
        """The same, for so many words, marks of these numbers, and texts of so many tokens."""
        return replace(self, vocabulary=vocabulary, start=start, end=end)

    @property
    def target_vocabulary(self) -> int:
        return self.vocabulary

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start", "end"):
            if self.vocabulary and not self.least_mark <= getattr(self, name) < self.vocabulary:
                raise UserError(f"{name} token {getattr(self, name)} is outside {self.vocabulary} words")


@dataclass(frozen=True, kw_only=True)
class LayeredTextConfig(TextConfig, StackConfig):
    """One Stack over text."""

    num_layers: int = 4

    @property
    def out_width(self) -> int:
        """Of the vectors that it makes."""
        return self.width


@dataclass(frozen=True, kw_only=True)
class GptConfig(LayeredTextConfig):
    """A decoder alone [Radford+ 2018; 2019]; with rotary positions, RMS norms and gates, Llama [Touvron+ 2023]."""

    source_vocabulary: ClassVar[int] = 0
    scaled_embedding: ClassVar[bool] = False
    embedding_norm: ClassVar[bool] = False
    kind: Literal["gpt"] = "gpt"
    least_mark: ClassVar[int] = -1
    context: int | None = field(default=None, metadata=DERIVED)
    """Tokens that each sees at most, itself among them; beyond the distances that it has learned, it would be lost."""

    @property
    def decoder_layers(self) -> int:
        return self.num_layers

    def sized(self, vocabulary: int, start: int = 2, end: int = 2, context: int | None = None) -> Self:
        return replace(super().sized(vocabulary, start, end), context=context)


@dataclass(frozen=True, kw_only=True)
class BertConfig(LayeredTextConfig):
    """An encoder alone [Devlin+ 2019]."""

    both_ways: ClassVar[bool] = True
    kind: Literal["bert"] = "bert"
    mask: int = field(default=4, metadata=DERIVED)
    """The token that stands for a word that was taken out."""
    segments: int = 2
    """Parts of a text that are told apart; 0 tells none."""
    embedding_norm: bool = field(default=True, metadata=DERIVED)
    next_sentence: bool = False
    """Whether it learns to tell if the second part of a text follows the first."""
    pooler: bool = field(default=False, metadata=DERIVED)
    guesses: bool = field(default=True, metadata=DERIVED)
    """Whether it can guess words; an encoder that was made elsewhere may not."""
    pooling: Literal["mean", "first"] = field(default="mean", metadata=DERIVED)
    """How the vectors of its tokens make one of a text: by their mean, or by the first alone."""
    front: InputConfig | None = field(default=None, metadata=DERIVED)
    """What goes in, if it is not text."""

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
    def out_width(self) -> int:
        return self.embedding

    @property
    def layers(self) -> RecurrentLayersConfig:
        shape = RecurrentLayersConfig(cell=self.cell, input_width=self.embedding, width=self.width)
        return replace(shape, num_layers=self.num_layers, dropout=self.dropout)


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(TextConfig):
    """Two recurrent language models, one for each direction [Peters+ 2018]."""

    both_ways: ClassVar[bool] = True
    mixed: ClassVar[bool] = True
    kind: Literal["elmo"] = "elmo"
    embedding: int = 256
    width: int = 256
    """Of each direction's states."""
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    num_layers: int = 2
    front: InputConfig | None = field(default=None, metadata=DERIVED)
    """What goes in, if it is not text."""

    @property
    def layer(self) -> RecurrentLayersConfig:
        return RecurrentLayersConfig(cell=self.cell, input_width=self.width, width=self.width)

    @property
    def out_width(self) -> int:
        """Of the vectors that it makes, both directions together."""
        return 2 * self.width

    pooling: ClassVar[str] = "mean"
    """How the vectors of its tokens make one of a text."""


Trunk = BertConfig | GptConfig | RecurrentTextConfig | ElmoConfig
OF_TOKENS = ("tagging", "spans")  # questions about each token; the others are about texts


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(Bounded):
    """A model of text, trained before or not, with a head that answers a question about what it read."""

    kind: Literal["reader"] = "reader"
    init_from: str | None = None
    """A model to begin with, its shape, words and weights: a folder, or an installed package that carries one."""
    architecture_only: bool = False
    """Whether shape and words alone are taken from there."""
    trunk: Trunk = BertConfig(
        width=192, hidden=768, num_heads=4, placement="pre", activation="gelu", dropout=0.1,
        position=PositionConfig(kind="rotary", layout="halves"),
    )  # fmt: skip
    """What reads, where nothing is begun with."""
    pooling: Literal["first", "mean"] = "first"
    """What an encoder's answer is told from: the vector of its first token, or the mean of all."""
    symmetric: bool = False
    """Whether pairs are read in both orders, and what was read is added [Radford+ 2018, section 3.3]."""
    dropout: float = 0.1
    """Of what the head is told."""
    question: str = field(default="classification", metadata=DERIVED)
    """The task that it answers for."""
    labels: tuple[str, ...] = field(default=(), metadata=DERIVED)
    """Answers to choose from, and tags."""
    pairs: bool = field(default=False, metadata=DERIVED)
    """Whether it reads two texts at once."""
    center: float = field(default=0.0, metadata=DERIVED)
    """Of numbers that are told: their mean in training, and their deviation from it."""
    spread: float = field(default=1.0, metadata=DERIVED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.architecture_only and self.init_from is None:
            raise UserError("architecture_only is about the model to begin with; give init_from, or drop it")

    @property
    def start(self) -> int:
        return self.trunk.start

    @property
    def end(self) -> int:
        return self.trunk.end

    @property
    def of_tokens(self) -> bool:
        """Whether each token is asked about, and not the text."""
        return self.question in OF_TOKENS

    @property
    def outputs(self) -> int:
        """Numbers for each text, or for each token: one a label, two for where a span begins and ends, or one."""
        return len(self.labels) or (2 if self.of_tokens else 1)


ModelConfig = TransformerConfig | RecurrentConfig | Trunk | ReaderConfig
