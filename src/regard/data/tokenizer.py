"""Text to ids and back, around the `tokenizers` library.

Control ids are ours and unknown to the library: padding, start, end, unknown, then the tags, then the library's own
ids shifted up. So text that spells a control token stays text.
"""

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Self, get_args

from tokenizers import Tokenizer as Library

from regard import files
from regard.bounds import check_bound
from regard.data.axes import Text
from regard.data.config import NUM_BYTES, NUM_CONTROLS, TokenizerConfig, TokenizerKind
from regard.data.input import Input
from regard.data.library import BYTES, MISSING, MODELS, label, learn, prepared, set_parts, valid_unicode, word_numbers
from regard.data.parts import load_library, no_panic
from regard.data.text import lines
from regard.errors import UserError
from regard.shapes import Row

PADDING, START, END, UNKNOWN = range(NUM_CONTROLS)
NAMES = ("<pad>", "<start>", "</s>", "<unk>")
MASK = "[MASK]"  # stands for a word that was taken out; kept among the tags, and named as others name it
ENDS = ("</s>", "[SEP]", "<|endoftext|>")  # what others call the end of a text
SHOWN_UNKNOWN = "⁇"
LARGEST = 64 << 20  # bytes of a file that is read
MOST_NEW = 10_000  # words that are added to a tokenizer
Placed = tuple[list[int], list[tuple[int, int]]]  # ids of a text, and from where to where in it each comes
CODE = re.compile(">>.*?<<")  # how Marian's models are told a language, before a text


class Tokenizer:
    """A trained tokenizer; `vocabulary` counts all ids."""

    end = END
    """The id that ends a text."""
    frame: tuple[Sequence[int], Sequence[int]] = ((), (END,))
    """Ids before and after every text."""
    front = None  # an Embedding
    new_words: tuple[str, ...] = ()
    """Words that became tokens of their own after the tokenizer was trained; theirs are the last ids."""
    _new: re.Pattern[str] | None = None
    _new_ids: Mapping[str, int] = {}

    def __init__(self, library: Library, kind: TokenizerKind, tags: Sequence[str] = ()) -> None:
        if len(set(tags)) != len(tags):
            raise UserError(f"tags {', '.join(tags)} name a direction twice; list each once")
        set_parts(library, kind)
        self.kind, self.tags, self._library = kind, tuple(tags), library
        self._drops_space = kind == "words"  # whether a text says the same with a space before it
        self._controls = dict(enumerate([*NAMES, *(tag if tag == MASK else f"<2{tag}>" for tag in tags)]))
        self._num_missing = int(kind in MISSING)  # 1: the library's id 0 is its unknown, which becomes our UNKNOWN
        self._shift = len(self._controls) - self._num_missing
        vocab = library.get_vocab()
        symbols = sorted(vocab, key=vocab.__getitem__)[self._num_missing :]
        spelled = [s.encode() if self._num_missing else bytes(BYTES[c] for c in s) for s in symbols]
        self._bytes = [b""] * len(self._controls) + spelled
        self._bytes[UNKNOWN] = SHOWN_UNKNOWN.encode()
        self.vocabulary = len(self._bytes)

    @staticmethod
    def train(texts: Iterator[str], config: TokenizerConfig, tags: Sequence[str] = ()) -> "Tokenizer":
        """Learn from texts; the vocabulary may come out smaller than asked for when they are few."""
        first = next(texts, None)
        if first is None:
            raise UserError("no text to train a tokenizer on; give at least one line")
        room = config.vocabulary - NUM_CONTROLS - len(tags)
        least = 1 if config.kind in MISSING else NUM_BYTES
        if room < least:
            wanted = config.vocabulary - room + least
            raise UserError(f"a vocabulary of {config.vocabulary} is too small with {len(tags)} tags; use {wanted}")
        return Tokenizer(learn(chain([first], texts), config, room), config.kind, tags)

    @staticmethod
    def load(path: Path) -> "Tokenizer":
        """Read what `save` wrote."""
        data = files.read_regular(path, LARGEST)
        try:
            return _parsed(files.unsealed(json.loads(data)))
        except Exception as error:
            raise UserError(f"{path}: no tokenizer of Regard ({error}); copy it again from where it came") from error

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        files.write(path, files.sealed(self.content(), indent=None))

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        library = json.loads(self._library.to_str())
        kind: dict[str, Any] = {"kind": self.kind, "tags": list(self.tags)}
        kind |= {"new_words": list(self.new_words)} if self.new_words else {}
        return {"format": "regard-tokenizer", "version": 1, **kind, "tokenizer": library}

    def extended(self, words: Sequence[str]) -> "Tokenizer":
        """The same, with words more: where one stands after a space, it is one token."""
        counts = Counter((*self.new_words, *words))
        if len(counts) > MOST_NEW:
            raise UserError(f"{len(counts):,} new words; at most {MOST_NEW:,} are added, so train a tokenizer instead")
        odd = [word for word, count in counts.items() if count > 1 or not word or any(c.isspace() for c in word)]
        if odd:
            raise UserError(f"new words {', '.join(map(repr, odd))}: each is given once, and holds no space")
        if not words:
            return self
        more = copy.copy(self)
        more.new_words, more.vocabulary = (*self.new_words, *words), self.vocabulary + len(words)
        more._new_ids = {**self._new_ids, **{word: i for i, word in enumerate(words, self.vocabulary)}}
        more._bytes = [*self._bytes, *((word if self.kind == "words" else f" {word}").encode() for word in words)]
        known = "|".join(re.escape(word) for word in sorted(more.new_words, key=len, reverse=True))
        more._new = re.compile(rf"((?:{'^ ?| ' if self._drops_space else ' '})(?:{known})(?!\w))")
        return more

    def lines(self, path: Path) -> Iterator[str]:
        """Undecodable bytes become U+FFFD."""
        return lines(path, strict=False)

    def read(self, texts: Sequence[str], tag: str | None = None) -> list[Row]:
        """Sources as a model reads them: the direction's tag if there is one, the words, the end mark."""
        first = [] if tag is None else [self.tag_id(tag)]
        return [self.framed([*first, *ids]) for ids in self.encode(texts)]

    def closed(self) -> Self:
        return self

    def encode(self, texts: Sequence[str], *, spaced: bool = True) -> list[list[int]]:
        """Ids of each text, without start and end; not `spaced`, texts are as they are, parts of a running one."""
        return [ids for ids, _ in self._rows(self._ready(texts, spaced), places=False)]

    def places(self, texts: Sequence[str]) -> list[Placed]:
        """Ids of each text, and from where to where in it each comes, in characters."""
        ready = self._ready(texts, True)
        placed = []
        for text, padded, (ids, spans) in zip(texts, ready, self._rows(ready, places=True), strict=True):
            before = len(padded) - len(text)  # a space in front
            moved = [(max(0, a - before), max(0, b - before)) for a, b in spans]
            placed.append((ids, [(a + len(text[a:b]) - len(text[a:b].lstrip()), b) for a, b in moved]))
        return placed

    def _ready(self, texts: Sequence[str], spaced: bool) -> list[str]:
        return [prepared(text, self.kind) if spaced else valid_unicode(text) for text in texts]

    @no_panic("the tokenizer cannot split a text")
    def _encode(self, ready: Sequence[str], *, places: bool) -> list[Placed]:
        """Ids by the library alone, with their places if they are wanted, which takes longer."""
        run = self._library.encode_batch if places else self._library.encode_batch_fast
        encodings = run(ready, add_special_tokens=False)
        ids = ([UNKNOWN if i < self._num_missing else i + self._shift for i in one.ids] for one in encodings)
        return [(row, one.offsets if places else []) for row, one in zip(ids, encodings, strict=True)]

    def _rows(self, ready: Sequence[str], *, places: bool) -> list[Placed]:
        """New words by their own ids, what stands between them by the library."""
        if self._new is None:
            return self._encode(ready, places=places)
        cut = [self._new.split(text) for text in ready]  # what stands between, and new words with their space, by turns
        between = iter(self._encode([part for parts in cut for part in parts[::2]], places=True))
        rows = []
        for parts in cut:
            ids, spans, start = list[int](), list[tuple[int, int]](), 0
            for i, part in enumerate(parts):
                is_new = i % 2
                row, inside = ([self._new_ids[part.strip()]], [(0, len(part))]) if is_new else next(between)
                ids += row
                spans += [(start + a, start + b) for a, b in inside]
                start += len(part)
            rows.append((ids, spans))
        return rows

    def decode(self, ids: Sequence[int], *, spaced: bool = True) -> str:
        """The text again; control ids are dropped, and the unknown is shown as ⁇."""
        self._check(ids)
        if self.kind == "words":
            text = " ".join(self._bytes[i].decode() for i in ids if self._bytes[i])
            return text.replace(" \n", "\n").replace("\n ", "\n")
        text = b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace")
        return text.removeprefix(" ") if spaced and self.kind != "characters" else text

    def framed(self, ids: Sequence[int]) -> list[int]:
        """As a model reads a whole text."""
        return [*self.frame[0], *ids, *self.frame[1]]

    def prompt(self, ids: Sequence[int], start: int) -> list[int]:
        """As a model reads a text that it shall go on with; `start` precedes its texts."""
        return [start, *ids]

    def id_of(self, name: str) -> int | None:
        """The id of a control token."""
        return next((i for i, each in self._controls.items() if each == name), None)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A label to print for each id."""
        self._check(ids)
        return [self._controls.get(i) or label(self._bytes[i]) for i in ids]

    def axis(self, ids: Sequence[int]) -> Text:
        return Text(self.pieces(ids), self.words(ids))

    def words(self, ids: Sequence[int]) -> list[int]:
        """A group for each id: pieces of one word share a number, a control token has its own."""
        self._check(ids)
        groups: list[int] = []
        for alone, run in groupby(ids, self._stands_alone):
            spelled = [self._bytes[i] for i in run]
            first = groups[-1] + 1 if groups else 0
            groups += [first + n for n in (range(len(spelled)) if alone else word_numbers(spelled))]
        return groups

    def is_word(self, i: int) -> bool:
        """Whether an id spells something, and is no control token."""
        return bool(self._bytes[i]) and i not in self._controls

    def begins_word(self, i: int) -> bool:
        """Whether an id is the first of its word, wherever it stands."""
        return self._stands_alone(i) or self._bytes[i][:1].isspace()

    def tag_id(self, tag: str) -> int:
        """The id that stands for a direction."""
        if tag not in self.tags:
            raise UserError(f"no direction is called {tag!r}; known: {', '.join(self.tags) or 'none, so give no tag'}")
        return NUM_CONTROLS + self.tags.index(tag)

    def _stands_alone(self, i: int) -> bool:
        return self.kind == "words" or (i in self._controls and not self._bytes[i])

    def _check(self, ids: Sequence[int]) -> None:
        if len(ids) and (min(ids) < 0 or max(ids) >= self.vocabulary):
            raise UserError(f"ids {min(ids)} to {max(ids)} are not all below {self.vocabulary}; give this tokenizer's")


class ForeignTokenizer(Tokenizer):
    """A tokenizer of the `tokenizers` library as another tool made it; text that spells a control token stays text."""

    kind = "foreign"  # type: ignore[assignment]

    def __init__(
        self,
        library: Mapping[str, Any],
        controls: Mapping[int, str],
        vocabulary: int,
        frame: tuple[Sequence[int], Sequence[int]] = ((), ()),
        words: Mapping[str, int] | None = None,
    ) -> None:
        """`words`: ids of pieces, where they are not the library's own."""
        check_bound("vocabulary", vocabulary)
        if odd := [i for i in chain(*frame) if not 0 <= i < vocabulary]:
            raise UserError(f"texts are framed by an id {odd[0]}, and the model has {vocabulary} words")
        controls = {i: name for i, name in controls.items() if 0 <= i < vocabulary}
        self.frame, self._words = frame, words
        plain = {**library, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
        self._library = load_library(plain)
        self.tags, self._controls, self.vocabulary = (), dict(controls), vocabulary
        self.end = next((i for i, name in controls.items() if name in ENDS), END)
        self._bytes = [b""] * vocabulary
        spelling = _spelling(plain)
        self._codes = {name: i for i, name in controls.items() if CODE.fullmatch(name)}
        self._unknown = 0 if words is None else words["<unk>"]
        vocab = self._library.get_vocab(with_added_tokens=False) if words is None else words
        for symbol, i in vocab.items():
            if not 0 <= i < vocabulary:
                raise UserError(f"the tokenizer has an id {i}, and the model {vocabulary} words; copy both again")
            if i not in controls:
                self._bytes[i] = SPELL[spelling](symbol)
        self._by_words = spelling == "word"
        self._drops_space = spelling != "visible" or '"Strip"' in json.dumps(library.get("decoder"))

    @no_panic("the tokenizer cannot split a text")
    def _encode(self, ready: Sequence[str], *, places: bool) -> list[Placed]:
        heads = [CODE.match(text) for text in ready]
        codes = [head[0] if head and head[0] in self._codes else "" for head in heads]
        rest = [text.removeprefix(code) for text, code in zip(ready, codes, strict=True)]
        slow = places or self._words is not None  # the fast one tells no pieces
        run = self._library.encode_batch if slow else self._library.encode_batch_fast
        placed = []
        for code, one in zip(codes, run(rest, add_special_tokens=False), strict=True):
            ids = one.ids if self._words is None else [self._words.get(p, self._unknown) for p in one.tokens]
            spans = [(a + len(code), b + len(code)) for a, b in one.offsets] if places else []
            placed.append(([self._codes[code], *ids], [(0, len(code)), *spans]) if code else (ids, spans))
        return placed

    def decode(self, ids: Sequence[int], *, spaced: bool = True) -> str:
        self._check(ids)
        text = b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace")
        if self._words is not None:
            return text.strip()
        if self._by_words:
            return text.removeprefix(" ").replace(" \n", "\n").replace("\n ", "\n")
        return text.removeprefix(" ") if spaced and self._drops_space else text

    def prompt(self, ids: Sequence[int], start: int) -> list[int]:
        return [*self.frame[0], *ids] or [start]

    def content(self) -> dict[str, Any]:
        controls = {str(i): name for i, name in self._controls.items()}
        own = {"controls": controls, "vocabulary": self.vocabulary, "frame": [list(part) for part in self.frame]}
        own |= {} if self._words is None else {"words": dict(self._words)}
        return {**super().content(), **own}


@dataclass(frozen=True, eq=False)
class Tokenizers:
    """What sources go in by, text or not, and the target's tokenizer; often one and the same."""

    source: Input
    target: Tokenizer

    @property
    def text(self) -> Tokenizer:
        """The source's."""
        return text_of(self.source)

    @property
    def sizes(self) -> tuple[int, int]:
        """Words of each."""
        return self.source.vocabulary, self.target.vocabulary

    def extended(self, words: Sequence[str]) -> "Tokenizers":
        """Both with words more."""
        target = self.target.extended(words)
        return Tokenizers(target if self.source is self.target else self.text.extended(words), target)

    def read(self, texts: Sequence[str], tag: str | None = None) -> list[Row]:
        return self.source.read(texts, tag)


def text_of(own: Input) -> Tokenizer:
    """An input that is a tokenizer."""
    if not isinstance(own, Tokenizer):
        raise UserError("this is for models that read text, and this one reads something else")
    return own


@no_panic()
def _parsed(content: dict[str, Any]) -> Tokenizer:
    """A tokenizer that can do all its kind promises; anything raised means that the file is no good."""
    if content["format"] != "regard-tokenizer" or content["version"] != 1:
        raise ValueError(f"format {content['format']!r}, version {content['version']!r}")
    if content["kind"] == "foreign":
        controls = {int(i): str(name) for i, name in content["controls"].items()}
        before, after = ([int(i) for i in part] for part in content["frame"])
        vocabulary, words = int(content["vocabulary"]), content.get("words")
        new = content.get("new_words", [])
        foreign = ForeignTokenizer(content["tokenizer"], controls, vocabulary - len(new), (before, after), words)
        return foreign.extended(new)
    kind, tags = content["kind"], content["tags"]
    if kind not in get_args(TokenizerKind) or not isinstance(tags, list) or not all(isinstance(t, str) for t in tags):
        raise ValueError(f"kind {kind!r} and tags {tags!r}")
    form = content["tokenizer"].get("normalizer")
    library = load_library({**content["tokenizer"], **dict.fromkeys(("pre_tokenizer", "decoder", "post_processor"))})
    if not isinstance(library.model, MODELS[kind]) or library.get_added_tokens_decoder():
        raise ValueError(f"the model is not of kind {kind}, or has added tokens")
    if form not in (None, {"type": "NFC"}, {"type": "NFKC"}):
        raise ValueError(f"a normalizer of type {form['type']}")
    vocab = library.get_vocab()
    needed = {MISSING[kind]} if kind in MISSING else set(BYTES)
    if sorted(vocab.values()) != list(range(len(vocab))) or "" in vocab or not needed <= set(vocab):
        raise ValueError("symbols or ids are missing")
    if kind in MISSING and vocab[MISSING[kind]] != 0:
        raise ValueError("the unknown is not the first symbol")
    tokenizer = Tokenizer(library, kind, tags).extended(content.get("new_words", []))
    tokenizer.encode(["a trial \U0010fffd"])
    return tokenizer


def _spelling(library: Mapping[str, Any]) -> str:
    """How symbols of this library are spelled, told by its parts."""
    parts = json.dumps([library.get(name) for name in ("pre_tokenizer", "decoder")])
    if '"ByteLevel"' in parts:
        return "visible"
    kind = library["model"].get("type")
    if kind == "WordLevel" and (library.get("decoder") is None or '"WordPiece"' in parts):
        return "word"
    return "piece" if kind == "WordPiece" else "spaced"


SPELL: dict[str, Callable[[str], bytes]] = {
    "visible": lambda symbol: bytes(BYTES[c] for c in symbol),
    "word": lambda symbol: f" {symbol}".encode(),
    "piece": lambda symbol: (symbol[2:] if symbol.startswith("##") else f" {symbol}").encode(),
    "spaced": lambda symbol: (
        bytes([int(symbol[3:5], 16)])
        if len(symbol) == 6 and symbol.startswith("<0x")
        else symbol.replace("▁", " ").encode()
    ),
}
