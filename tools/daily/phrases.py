"""Phrases and clauses that exist in both languages at once.

Every word carries the bits of the concepts that it expresses. Two words are linked when they share a bit, so that each
language is free to put its words where its own rules want them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, NamedTuple

from tools.daily.lexicon import NUMBERS, POSSESSIVES, Adjective, Noun, Verb, pair

from tools.daily import english, german

Order = Literal["statement", "question", "subordinate", "infinitive", "imperative"]
# German stem, the kind of its endings and those of an adjective after it
DETERMINERS = {
    "the": ("", "der", "weak"),
    "a": ("ein", "ein", "mixed"),
    "": ("", "fixed", "strong"),
    "this": ("dies", "dies", "weak"),
    "every": ("jed", "dies", "weak"),
    "which": ("welch", "dies", "weak"),
    "many": ("viel", "dies", "strong"),
    "no": ("kein", "ein", "mixed"),
    **{first: (second, "ein", "mixed") for first, second in map(pair, POSSESSIVES)},
    **{first: (second, "fixed", "strong") for first, second in map(pair, NUMBERS)},
}
INDEFINITE = {"a", "", "many", "no", *(pair(number)[0] for number in NUMBERS)}


class Word(NamedTuple):
    text: str
    ids: int
    lemma: str = ""


Words = tuple[Word, ...]
Both = tuple[Words, Words]  # English and German


def spell(text: str, ids: int, lemma: str = "") -> Words:
    """The words of a text that share their concepts; the first one bears the lemma."""
    return tuple(Word(word, ids, "" if n else lemma) for n, word in enumerate(text.split()))


def comma(words: Words) -> Words:
    last = words[-1]
    return words if last.text.endswith(",") else (*words[:-1], last._replace(text=last.text + ","))


@dataclass(frozen=True)
class Nominal:
    """Somebody or something: as subject and object in English, and in German by case (N, A, D or G)."""

    english: Both
    german: Callable[[str], Words]
    agreement: int  # 0 I, 1 you, 2 he, 3 they
    kind: Literal["pronoun", "known", "new"]
    noun: Noun | None = None

    @property
    def person(self) -> bool:
        return self.noun is None or self.noun.section in ("person", "family", "parent")

    @property
    def gender(self) -> str:
        return "p" if self.agreement == 3 else self.noun.gender if self.noun else ""

    def extended(self, sides: Both) -> Nominal:
        """With a relative clause, which German sets between commas."""
        first, second = ((*words, *sides[0]) for words in self.english)
        return replace(self, english=(first, second), german=lambda case: comma(self.german(case)) + comma(sides[1]))

    def joined(self, other: Nominal, link: Both) -> Nominal:
        """Two of them with a conjunction."""
        subject, thing = ((*a, *link[0], *b) for a, b in zip(self.english, other.english, strict=True))
        both = replace(self, english=(subject, thing), agreement=3)
        return replace(both, german=lambda case: (*self.german(case), *link[1], *other.german(case)))


def noun_phrase(
    noun: Noun,
    determiner: str,
    plural: bool,
    adjectives: tuple[Adjective, ...],
    ids: tuple[int, ...],  # of the determiner, the noun and each adjective
    kein: int = 0,  # the bit of `not`, to be said here if German can
    owner: Nominal | None = None,
) -> Nominal:
    """A noun with its determiner or owner and adjectives."""
    left = [Word(adjective.english, bit, adjective.lemma) for adjective, bit in zip(adjectives, ids[2:], strict=True)]
    left += spell(english.plural(noun) if plural else noun.english, ids[1], noun.lemma)
    if owner:
        *first, last = owner.english[1]
        left = [*first, last._replace(text=english.owner(last.text, owner.agreement == 3)), *left]
        determiner = "the" if owner.noun else ""
    elif determiner:
        text = {"a": english.article(left[0].text), "this": "these" if plural else "this"}
        left = [Word(text.get(determiner, determiner), ids[0]), *left]
    kein = kein if determiner in ("a", "") and not owner else 0
    stem, kind, strength = DETERMINERS["no" if kein else determiner]
    gender = "p" if plural else noun.gender

    def right(case: str) -> Words:
        words = spell(german.determiner(stem, kind, gender, case), ids[1] if owner else ids[0] | kein)
        for adjective, bit in zip(adjectives, ids[2:], strict=True):
            words += spell(german.adjective(adjective, strength, gender, case), bit)
        words += spell(german.noun(noun, plural, case), ids[1])
        genitive = owner.german("G") if owner else ()
        return words + genitive if owner and owner.noun else genitive + words

    known: Literal["known", "new"] = "new" if determiner in INDEFINITE and not owner else "known"
    return Nominal((tuple(left), tuple(left)), right, 3 if plural else 2, known, noun)


# The German places in a clause: what is known comes early, what belongs to the verb comes last.
Slot = IntEnum("Slot", "REFLEXIVE PRONOUN RECIPIENT TIME KNOWN NOT MANNER PLACE NEW COMPLEMENT")


class Part(NamedTuple):
    """Something beside subject and verb, with its place in each language's order."""

    english: Words
    german: Words
    place: int  # 0 before the verb, then 1 recipient, 2 object, 3 complement, 4 manner, 5 place, 6 time
    slot: Slot


def thing(nominal: Nominal, case: str) -> Part:
    """What a verb acts on."""
    slot = {"pronoun": Slot.PRONOUN, "known": Slot.KNOWN, "new": Slot.NEW}[nominal.kind]
    return Part(nominal.english[1], nominal.german(case), 2, slot)


def prepositional(words: Both, nominal: Nominal, case: str, place: int, slot: Slot) -> Part:
    """A preposition and what follows it; in German, it may swallow the article (in dem, im)."""
    preposition, (first, *rest) = words[1][0], nominal.german(case)
    merged = german.CONTRACTIONS.get((preposition.text, first.text)) if nominal.noun else None
    start = (Word(merged, preposition.ids | first.ids),) if merged else (preposition, first)
    return Part((*words[0], *nominal.english[1]), (*start, *rest), place, slot)


@dataclass(frozen=True)
class Clause:
    """A subject and what it does; the bits are those of the tense and of the verb itself."""

    subject: Nominal
    verb: Verb
    tense: str  # simple, progressive, past, perfect, future or a modal verb
    parts: tuple[Part, ...]
    tense_id: int
    verb_id: int
    negation: int = 0  # the bit of the English `not`

    def english(self, order: Order, lead: Words = ()) -> Words:
        parts = sorted(self.parts, key=lambda part: part.place)
        middle = tuple(word for part in parts if part.place == 0 for word in part.english)
        rest = tuple(word for part in parts if part.place > 0 for word in part.english)
        rest = (*spell(self.verb.particle, self.verb_id), *rest)
        negation = (Word("not", self.negation),) if self.negation else ()
        base = Word(self.verb.english, self.verb_id, self.verb.lemma)
        if order == "imperative":
            return (*lead, *((Word("do", self.tense_id), *negation) if negation else ()), base, *rest)
        if order == "infinitive":
            return (*lead, Word("to", self.tense_id), base, *rest)
        auxiliary, main = self._english_verb(base, support=order == "question" or bool(negation))
        if negation and auxiliary[0].text == "can":
            auxiliary, negation = (Word("cannot", auxiliary[0].ids | self.negation),), ()
        subject = self.subject.english[0]
        start = (*auxiliary, *subject) if order == "question" else (*subject, *auxiliary)
        return (*lead, *start, *negation, *middle, *main, *rest)

    def _english_verb(self, base: Word, support: bool) -> tuple[Words, Words]:
        """The auxiliary, if there is one, and what comes after `not` and before the particle."""
        tense, agreement, x = self.tense, self.subject.agreement, self.tense_id
        be, was = (english.BE[time][agreement] for time in ("simple", "past"))
        if self.verb.english == "be" and tense in english.BE:
            return (Word(was if tense == "past" else be, x | self.verb_id),), ()
        if tense == "progressive":
            return (Word(be, x),), (base._replace(text=english.progressive(self.verb)),)
        done = base._replace(text=english.participle(self.verb))
        if tense == "perfect":
            return (Word("has" if agreement == 2 else "have", x),), (done,)
        head, *rest = tense.replace("future", "will").split()
        after = (*spell(" ".join(rest), x), base)
        if head in ("can", "must", "may", "should", "will", "would"):
            return (Word(head, x),), after
        past = head in ("past", "had", "wanted")
        if support:
            heads = spell({"had": "have", "wanted": "want", "simple": "", "past": ""}.get(head, head), x)
            return (Word("did" if past else "does" if agreement == 2 else "do", x),), (*heads, *after)
        if tense in ("simple", "past"):
            present = english.third(self.verb) if agreement == 2 else base.text
            return (), (base._replace(text=english.past(self.verb) if past else present, ids=x | self.verb_id),)
        return (), (Word(head if past or agreement != 2 else {"have": "has"}.get(head, head + "s"), x), *after)

    def german(self, order: Order, lead: Words = ()) -> Words:
        parts = sorted(self.parts, key=lambda part: part.slot)
        middle = tuple(word for part in parts for word in part.german)
        finite, prefix, tail = self._german_verb()
        if order == "imperative":
            return (*lead, finite._replace(text=german.imperative(self.verb)), *middle, *prefix)
        if order == "infinitive":
            if self.verb.prefix:
                text = f"{self.verb.prefix}zu{self.verb.german}"
                return (*lead, *middle, Word(text, self.tense_id | self.verb_id))
            return (*lead, *middle, Word("zu", self.tense_id), Word(self.verb.german, self.verb_id))
        subject = self.subject.german("N")
        if order == "subordinate":
            if prefix:
                return (*lead, *subject, *middle, finite._replace(text=prefix[0].text + finite.text))
            return (*lead, *subject, *middle, *tail, finite)
        if not lead and order == "statement":
            return (*subject, finite, *middle, *tail, *prefix)
        if self.verb.reflexive and self.subject.kind != "pronoun":  # heute freut sich der Mann, but heute freut er sich
            return (*lead, finite, middle[0], *subject, *middle[1:], *tail, *prefix)
        return (*lead, finite, *subject, *middle, *tail, *prefix)

    def _german_verb(self) -> tuple[Word, Words, Words]:
        """The word that agrees with the subject, the prefix if it stands alone, and what ends the clause."""
        verb, agreement, tense = self.verb, self.subject.agreement, self.tense
        infinitive = Word(verb.prefix + verb.german, self.verb_id)
        if tense in ("simple", "progressive", "imperative"):
            finite = Word(german.present(verb, agreement), self.verb_id | self.tense_id)
            return finite, spell(verb.prefix, self.verb_id), ()
        if tense == "past" and verb.german in ("sein", "haben"):
            text = german.AUXILIARIES[f"past {verb.german}"].split()[agreement]
            return Word(text, self.tense_id | self.verb_id), (), ()
        done = infinitive._replace(text=german.participle(verb))
        if tense in ("past", "perfect"):
            auxiliary = german.AUXILIARIES["sein" if verb.sein else "haben"].split()[agreement]
            return Word(auxiliary, self.tense_id), (), (done,)
        text = german.AUXILIARIES[tense].split()[agreement]
        return Word(text, self.tense_id), (), (infinitive,)
