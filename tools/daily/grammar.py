"""English and German sentences of daily life, each with its gold word alignment: the corpus that Regard ships.

Sentences are words between single spaces. A comma or a question mark sticks to its word and has no link of its own;
statements and requests end without a mark. `You` is always one friend (du), and an English sentence has but one German
one. The links, pairs of a source and a target word, keep to these rules:

- The forms of a verb are linked part by part: in "did you eat" and "hast du gegessen", did - hast and eat - gegessen;
  "I will eat" and "ich werde essen", will - werde and eat - essen. Where one side has fewer words, they take several
  links: ate - habe, ate - gegessen; is - isst, eating - isst; do - isst, eat - isst. Both parts of a separable verb,
  its English particle (get up) and a German reflexive pronoun are linked to the verb.
- A preposition that swallows its article is linked to both (in, the - im). `Not` is linked to nicht; where German says
  kein, both `not` and `a` are linked to it.
- A word without a counterpart goes with the word that it belongs to: the man's car and das Auto des Mannes, car - das;
  to buy, to - um and to - zu.
- Every word of either side has a link.

Every pair of a content word and a construction belongs to one split. A sentence for training has pairs of training
alone; one for validation or test has a pair of its own split and none of the other's: all its words are known, and so
is its construction, but not together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from tools.daily.clauses import FAMILIES, Draft
from tools.daily.lexicon import table
from tools.daily.phrases import Words
from tools.daily.scene import Scene

from regard.rng import Key

SIZES = {"train": 60_000, "valid": 500, "test": 1_000}  # sentences
SEED = 6  # one by which every word is met in training, also those that few constructions have
SHARES = {0: "valid", 1: "test"}  # of every 25 pairs of a word and a construction


@dataclass(frozen=True)
class Sentence:
    """A sentence in both languages; links are pairs of a source and a target position."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: frozenset[tuple[int, int]]
    construction: str
    lemmas: tuple[str, ...]  # its content words, each as english/German


@cache
def constructions() -> dict[str, tuple[Callable[..., Draft | None], list[str]]]:
    """The family of every construction and how it is to make it."""
    rows = ((name, [word.replace("_", " ") for word in row.split()]) for name, row in table("constructions"))
    return {name: (FAMILIES[family], rest) for name, (family, *rest) in rows}


@cache
def split_of(lemma: str, construction: str) -> str:
    """Where a content word may be met in a construction."""
    return SHARES.get(blake2b(f"{SEED} {construction} {lemma}".encode()).digest()[0] % 25, "train")


def sentence(draft: Draft, construction: str) -> Sentence | None:
    """A draft as text with its links; None if it says a word twice."""
    left, right, mark = draft
    right = (*right[:-1], right[-1]._replace(text=right[-1].text.removesuffix(",")))
    lemmas = tuple(word.lemma for word in left if word.lemma)
    if len(set(lemmas)) < len(lemmas):
        return None
    links = ((i, j) for i, first in enumerate(left) for j, second in enumerate(right) if first.ids & second.ids)
    return Sentence(_text(left, mark), _text(right, mark), frozenset(links), construction, lemmas)


def _text(words: Words, mark: str) -> tuple[str, ...]:
    first, *rest = (word.text for word in words)
    *start, last = (first[0].upper() + first[1:], *rest)
    return (*start, last + mark)


def drafts(key: Key) -> Iterator[Sentence]:
    """Sentences of all constructions in turn, without end; some come again."""
    draw = key.generator()
    rows = list(constructions().items())
    while True:
        name, (family, rest) = rows[int(draw.random() * len(rows))]
        draft = family(Scene(draw), *rest)
        made = sentence(draft, name) if draft else None
        if made:
            yield made


def sentences(split: str, count: int | None = None) -> Iterator[Sentence]:
    """The sentences of a split, no two alike and the same at every call; `count` of them or as many as is usual."""
    seen: set[tuple[str, ...]] = set()
    stream = drafts(Key(0, ("daily", split)))
    while len(seen) < (SIZES[split] if count is None else count):
        made = next(stream)
        splits = {split_of(lemma, made.construction) for lemma in made.lemmas} | {"train"}
        if splits == {"train", split} and made.source not in seen:
            seen.add(made.source)
            yield made
