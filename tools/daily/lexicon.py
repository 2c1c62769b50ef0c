"""Nouns, verbs, adjectives and adverbs, read from words.txt, which says how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Rows = list[tuple[str, str]]  # the heading and the text of each entry


@cache
def table(name: str) -> Rows:
    """A table of words.txt; headings end with a colon, entries with a semicolon or the line."""
    text = Path(__file__).with_name("words.txt").read_text("utf-8")
    _, *parts = re.split(r"^\[(\w+)\]\n", re.sub(r"^#.*\n", "", text, flags=re.M), flags=re.M)
    rows, heading = [], ""
    for part in dict(zip(parts[::2], parts[1::2], strict=True))[name].strip().replace("\n", ";").split(";"):
        head, colon, rest = part.partition(": ")
        heading = head.strip() if colon else heading
        rows.append((heading, (rest if colon else part).strip()))
    return rows


def words(name: str, heading: str = "") -> list[str]:
    """All words of a table, or those under a heading."""
    return [word for head, row in table(name) if head == heading for word in row.split()]


MEN, WOMEN = words("names", "men"), words("names", "women")
NUMBERS, POSSESSIVES = words("numbers"), words("possessives")


@dataclass(frozen=True, eq=False)  # each is there once, so that comparing them is quick
class Entry:
    english: str
    german: str

    @property
    def lemma(self) -> str:
        return f"{self.english}/{self.german}".replace("_", " ")


@dataclass(frozen=True, eq=False)
class Noun(Entry):
    plural: str  # of the English word, if it is irregular
    gender: str  # m, f or n
    german_plural: str  # "" if there is none; the English word is then never used in the plural
    weak: bool  # den Jungen, dem Jungen
    section: str
    there: str  # English and German preposition of being at this place, such as in/in
    thither: str  # and of going there


@dataclass(frozen=True, eq=False)
class Verb(Entry):
    """The German word is the infinitive without its prefix."""

    past: str  # "" if it is regular, as in all forms below
    past_participle: str
    particle: str
    preposition: str
    third: str  # the er-form
    participle: str  # without the prefix
    sein: bool  # ist gegangen, not hat
    prefix: str
    reflexive: bool
    govern: tuple[str, str] | None  # German preposition and the case after it
    objects: tuple[str, ...]
    flags: frozenset[str]
    frame: str

    @property
    def lemma(self) -> str:
        return f"{self.english} {self.particle}".strip() + f"/{self.prefix}{self.german}"


@dataclass(frozen=True, eq=False)
class Adjective(Entry):
    comparative: str  # of the English word: "" for a regular one, "-" for none
    german_comparative: str
    rank: int
    nouns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Adverb(Entry):
    kind: str


def pair(text: str) -> tuple[str, str]:
    """What a stroke divides; the first again if there is no stroke."""
    first, stroke, second = text.partition("/")
    return first, second if stroke else first


def _noun(heading: str, entry: str) -> Noun:
    english, article, german, plural = entry.split()
    singular, _, many = english.replace("_", " ").partition("/")
    section, *prepositions = heading.split()
    written = {"=": german, ".": "", "-": german + plural[1:]}.get(plural[0], plural)
    gender = {"der": "m", "die": "f", "das": "n"}[article.rstrip("*")]
    return Noun(singular, german, many, gender, written, "*" in article, section, *(prepositions or ("", "")))


def _verb(frame: str, entry: str) -> Verb:
    rule, _, objects = entry.partition(" | ")
    left, right = (side.split() for side in rule.split(" = "))
    marked = {mark: " ".join(word[1:] for word in left if word[0] == mark) for mark in "~@"}
    english = [word for word in left if word[0] not in marked]
    govern = (right[-2], right[-1]) if right[-1] in ("A", "D") else None
    right = right[:-2] if govern else right
    reflexive = right[0] == "sich"
    prefix, _, infinitive = right[reflexive].rpartition("+")
    forms = [word for word in right[reflexive + 1 :] if word != "ist"]
    words = [word for word in objects.split() if word[0] != "!"]
    flags = frozenset(word[1] for word in objects.split() if word[0] == "!")
    past = (english[1], english[-1]) if len(english) > 1 else ("", "")
    third, participle = forms[0] if len(forms) > 1 else "", forms[-1] if forms else ""
    return Verb(
        english[0], infinitive, *past, marked["~"], marked["@"], third, participle, "ist" in right,
        prefix, reflexive, govern, tuple(words), flags, frame,
    )  # fmt: skip


@cache
def nouns() -> dict[str, Noun]:
    """All nouns by their English word."""
    return {noun.english: noun for noun in (_noun(*entry) for entry in table("nouns"))}


@cache
def resolve(*names: str) -> tuple[Noun, ...]:
    """The nouns that are meant by words, by groups and by sections."""
    found: dict[Noun, None] = {}
    for name in names:
        members = words("groups", name)
        if (plain := name.replace("_", " ")) in nouns():
            found[nouns()[plain]] = None
        elif name[0] == "-":
            del found[nouns()[name[1:]]]
        else:
            section = [noun for noun in nouns().values() if noun.section == name]
            found |= dict.fromkeys(resolve(*members) if members else section)
        assert found, f"no noun, group or section is called {name!r}; add it to words.txt"
    return tuple(found)


@cache
def among(noun: Noun, *names: str) -> bool:
    return noun in resolve(*names)


@cache
def verbs(*frames: str) -> tuple[Verb, ...]:
    """The verbs of some frames, or all."""
    if frames:
        return tuple(verb for verb in verbs() if verb.frame in frames)
    return tuple(_verb(*entry) for entry in table("verbs"))


@cache
def adjectives() -> tuple[Adjective, ...]:
    made = []
    for heading, entry in table("adjectives"):
        rank, *names = heading.split()
        (english, _, more), (german, _, mehr) = (side.partition("/") for side in entry.split())
        made.append(Adjective(english, german, more, mehr, int(rank), tuple(names)))
    return tuple(made)


@cache
def fitting(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that make sense with a noun."""
    return tuple(adjective for adjective in adjectives() if among(noun, *adjective.nouns))


@cache
def adverbs(*kinds: str) -> tuple[Adverb, ...]:
    """The adverbs of some kinds, or all; the first half of an entry is English."""
    if kinds:
        return tuple(adverb for adverb in adverbs() if adverb.kind in kinds)
    halves = (
        (kind, words, len(words) // 2) for kind, words in ((kind, entry.split()) for kind, entry in table("adverbs"))
    )
    return tuple(Adverb(" ".join(words[:half]), " ".join(words[half:]), kind) for kind, words, half in halves)


@cache
def spots(verb: Verb) -> tuple[tuple[str, Noun], ...]:
    """Where a verb puts things: an English and a German preposition, and a noun; nothing stands in a bag."""
    rows = (row for row in table("spots") if row[0] != "in/in" or verb.german == "legen")
    return tuple((words, noun) for words, names in rows for noun in resolve(*names.split()))


def lemmas() -> frozenset[str]:
    """Every content word: nouns, verbs, adjectives, adverbs and names."""
    words = (*nouns().values(), *(verb for verb in verbs() if verb.german != "sein"), *adjectives(), *adverbs())
    return frozenset((*(word.lemma for word in words), *("/".join(pair(name)) for name in (*MEN, *WOMEN))))
