"""Settings of corpora and tokenizers, free of torch."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from regard.bounds import check_bounds
from regard.errors import UserError

TokenizerKind = Literal["bpe", "unigram", "characters", "words"]
NUM_CONTROLS = 4  # padding, start, end, unknown
NUM_BYTES = 256
PAIR_ENDINGS = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text becomes ids."""

    kind: TokenizerKind = "bpe"
    """bpe and unigram work on bytes and know every text; characters and words have an unknown."""
    vocabulary: int = 8000
    """Ids at most, control tokens and tags among them."""
    normalise: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode form that text is brought to; nfkc also folds ligatures, widths and the like."""

    def __post_init__(self) -> None:
        check_bounds(self)
        least = 300 if self.kind in ("bpe", "unigram") else NUM_CONTROLS + 1
        if self.vocabulary < least:
            why = f"{NUM_BYTES} bytes and {NUM_CONTROLS} control tokens" if least == 300 else "the control tokens"
            raise UserError(f"a {self.kind} vocabulary of {self.vocabulary} cannot hold {why}; use {least} or more")


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    """Sequences of vectors of real numbers, such as what sensors measure, from .csv, .tsv, .npy and .npz."""

    such: ClassVar[str] = "rows of numbers, as [[0.1, 0.2], [0.3, 0.4]]"
    kind: Literal["vectors"] = "vectors"
    stack: int = 1
    """Steps in a row that are read as one, so that long recordings become shorter."""
    features: int = field(default=0, metadata={"derived": True})
    """Numbers of a step, as it is read."""

    def __post_init__(self) -> None:
        check_bounds(self)


# What goes in, where it is not text: settings, and the Input that they are of.
InputConfig = VectorsConfig
INPUTS = {"vectors": "regard.data.vectors:Vectors"}


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Where pairs of source and target come from: two files line by line, or one file of pairs."""

    source: str | None = None
    """File with a source on each line; plain or .gz."""
    target: str | None = None
    """File with the target of each line of `source`."""
    pairs: str | None = None
    """File of pairs: .tsv (source, tab, target) or .jsonl (objects with "source" and "target"); plain or .gz."""
    corpus: str | None = None
    """A corpus kept below REGARD_DATA: its name, languages and split, such as multi30k-tok/en-de/train."""
    tag: str | None = None
    """Name of the direction, such as de, in a model of several."""
    input: InputConfig | None = field(default=None, metadata={"derived": True})
    """What sources are, if not text."""

    def __post_init__(self) -> None:
        check_bounds(self)
        given = [name for name in ("source", "target", "pairs", "corpus") if getattr(self, name) is not None]
        if given not in (["source", "target"], ["pairs"], ["corpus"]):
            raise UserError(f"data from {' and '.join(given) or 'nowhere'}; give source and target, pairs, or corpus")
        if self.pairs is not None and not self.pairs.endswith(PAIR_ENDINGS):
            raise UserError(f"{self.pairs}: how are pairs written there? End the name in {', '.join(PAIR_ENDINGS)}")
        if self.tag is not None and (not self.tag or any(c.isspace() for c in self.tag)):
            raise UserError(f"tag {self.tag!r} is empty or holds a space; use a short name such as de")

    def __str__(self) -> str:
        made = " (synthetic)" if str(self.corpus).startswith(("daily/", "copy/")) else ""
        return f"{self.source or self.pairs or self.corpus}{made}" + (f" → {self.target}" if self.target else "")


def _check_parts(data: "DataConfig | TextDataConfig | LabelledDataConfig", input: InputConfig | None = None) -> None:
    """Raise unless there is something to learn from, and one way at most to hold something out; each part gets the
    input that all have."""
    check_bounds(data)
    for name in ("train", "valid") if input else ():
        object.__setattr__(data, name, tuple(replace(part, input=input) for part in getattr(data, name)))
    if not data.train:
        raise UserError("train names no data; give at least one file or corpus of texts or examples")
    if not 0 <= data.hold_out <= 0.5 or (data.hold_out and data.valid):
        raise UserError(f"hold_out {data.hold_out:g}; give a share up to 0.5, or valid, not both")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What a model learns from and is checked on."""

    train: tuple[PairsConfig, ...]
    valid: tuple[PairsConfig, ...] = ()
    hold_out: float = 0.0
    """Share of the training pairs to validate on instead, all pairs of a source together; they are kept in the run's
    folder as valid.source and valid.target."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Of both sides, or of the source."""
    target_tokenizer: TokenizerConfig | None = None
    """Of the target, if it is to have its own."""
    input: InputConfig | None = None
    """What sources are, if not text: they name files, and the tokenizer is of the target."""
    max_length: int = 256
    """Tokens; training pairs with a longer side are left out and counted."""

    def __post_init__(self) -> None:
        _check_parts(self, self.input)
        if self.input is not None and self.target_tokenizer is not None:
            raise UserError("target_tokenizer beside an input; the tokenizer is the target's already, so drop it")
        if self.hold_out and any(pairs.tag for pairs in self.train):
            raise UserError("hold_out is for one direction; give valid, with the same tags as train")


@dataclass(frozen=True, kw_only=True)
class RunningText:
    """Where running text comes from."""

    file: str | None = None
    """Plain or .gz."""
    corpus: str | None = None
    """A corpus kept below REGARD_DATA: wikitext2/train, tinyshakespeare/all, texts of glue/SST-2/train and so on."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if (self.file is None) == (self.corpus is None):
            raise UserError(f"data from file {self.file} and corpus {self.corpus}; give one of the two")

    def __str__(self) -> str:
        return str(self.file or self.corpus)


@dataclass(frozen=True, kw_only=True)
class TextDataConfig:
    """What a language model learns from and is checked on."""

    train: tuple[RunningText, ...]
    valid: tuple[RunningText, ...] = ()
    hold_out: float = 0.0
    """Share of the characters to validate on instead: the last of them."""
    documents: Literal["file", "paragraph", "line"] = "file"
    """What is a text of its own, with an end mark after it."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    tokenizer_from: str | None = None
    """Folder whose tokenizer is taken instead: a model's, or the two files of GPT-2's."""
    context: int = 256
    """Tokens that are learned from at once."""
    separate_documents: bool = False
    """Whether a document that shares its place with others sees itself alone."""

    def __post_init__(self) -> None:
        _check_parts(self)


@dataclass(frozen=True, kw_only=True)
class MaskedDataConfig(TextDataConfig):
    """The same for an encoder, which learns by words that are taken out."""

    mask_rate: float = 0.15
    """Share of the tokens that it has to guess."""
    whole_word_masking: bool = False
    """Whether all pieces of a word are taken out together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.mask_rate < 1.0:
            raise UserError(f"mask_rate {self.mask_rate:g} is no share of the tokens; try 0.15")
        if self.separate_documents:
            raise UserError("separate_documents is for language models; an encoder sees all of its context, so drop it")
        if self.context < 5:
            raise UserError(f"context {self.context} has room for marks only; use 5 or more, say 128")


@dataclass(frozen=True, kw_only=True)
class ExamplesConfig(RunningText):
    """Where labelled examples come from: as of running text, but of a layout that holds labels."""

    file: str | None = None
    """.tsv and .jsonl, of tagging .conll, .txt and .jsonl (all plain or .gz), of spans .json as SQuAD has it."""
    corpus: str | None = None
    """A corpus kept below REGARD_DATA: glue/SST-2/train, squad/train and so on."""
    input: InputConfig | None = field(default=None, metadata={"derived": True})
    """What is labelled, if not text."""


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig:
    """What a reader of labelled texts learns from and is checked on."""

    train: tuple[ExamplesConfig, ...]
    valid: tuple[ExamplesConfig, ...] = ()
    hold_out: float = 0.0
    """Share of the training examples to validate on instead, all of the same texts (of spans: document) together."""
    limit: int | None = None
    """Training examples at most, drawn at random, the same in every run."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Used when no model is begun with."""
    input: InputConfig | None = None
    """What examples are, if not text: they name files, or stand in one together."""
    max_length: int = 128
    """Tokens of an example at most; longer ones are cut, documents of spans are read in overlapping windows."""

    def __post_init__(self) -> None:
        _check_parts(self, self.input)
        if self.max_length < 5:
            raise UserError(f"max_length {self.max_length} has room for marks only; use 5 or more, say 128")
