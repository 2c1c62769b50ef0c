"""Who does what, where and when: draws that make sense together, as phrases and clauses of both languages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
from tools.daily.lexicon import MEN, POSSESSIVES, WOMEN, Adjective, Noun, Verb, among, pair, resolve, table
from tools.daily.phrases import Both, Clause, Nominal, Part, Slot, Words, noun_phrase, prepositional, spell, thing

from tools.daily import english, lexicon

T = TypeVar("T")
Known = bool | None  # the, or a, or either
Owner = Nominal | None
OWNERS = [pair(word)[0] for word in POSSESSIVES]
PERSONS = {row.split()[0]: row.split() for _, row in table("pronouns")}
SPEAKERS = ["I", "you", "he", "she", "we", "they"]
# Verbs that a tense or a use cannot take, by their marks; modal verbs bar states and mishaps.
BARRED = {"manner": "sqh"} | dict.fromkeys(["progressive", "imperative"], "sq")
BARRED |= dict.fromkeys(["simple", "past", "perfect", "future", "can"], "s")
TIMES = {"simple": ("habit",), "progressive": ("now",)} | dict.fromkeys(["past", "had to"], ("past", "week"))


@cache
def usable(tense: str, *frames: str) -> tuple[Verb, ...]:
    """The verbs of some frames that a tense can take; the frame !x stands for transitive verbs with that mark."""
    if frames[0][0] == "!":
        found = [verb for verb in lexicon.verbs("transitive", "dative") if frames[0][1] in verb.flags]
        return tuple(verb for verb in found if tense != "past" or "n" not in verb.flags)
    barred = BARRED.get(tense, "sm")
    # Put, cut and read are the same in the past, so that their simple present would be ambiguous.
    clear = [verb for verb in lexicon.verbs(*frames) if tense != "simple" or english.past(verb) != verb.english]
    return tuple(verb for verb in clear if not verb.flags & set(barred))


def add(made: Clause, *parts: Part) -> Clause:
    """A clause with more parts."""
    return replace(made, parts=(*made.parts, *parts))


@dataclass
class Scene:
    """The draws of one sentence; every concept gets a bit of its own."""

    draw: np.random.Generator
    bits: int = 0

    def bit(self) -> int:
        self.bits += 1
        return 1 << self.bits

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.draw.random() * len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def match(self, words: str, lemma: str = "") -> Both:
        """Words on both sides of a stroke, linked one by one; `_` joins those that share a counterpart."""
        left: Words = ()
        right: Words = ()
        for first, second in zip(*(side.split() for side in pair(words)), strict=True):
            bit = self.bit()
            left += spell(first.replace("_", " "), bit, "" if left else lemma)
            right += spell(second.replace("_", " "), bit)
        return left, right

    # Who and what

    def pronoun(self, word: str, gender: str = "") -> Nominal:
        """A personal pronoun; `it` takes the gender of what it stands for."""
        bit, row, shown = self.bit(), PERSONS[word], PERSONS[{"m": "he", "f": "she"}.get(gender, word)]
        agreement = {"I": 0, "you": 1, "we": 3, "they": 3}.get(word, 2)
        sides = spell(row[0], bit), spell(row[1], bit)
        return Nominal(sides, lambda case: spell(shown[2 + "NAD".index(case)], bit), agreement, "pronoun")

    def name(self, names: Sequence[str] = (*MEN, *WOMEN)) -> Nominal:
        (first, second), bit = pair(self.pick(names)), self.bit()
        words = spell(first, bit, f"{first}/{second}")
        return Nominal((words, words), lambda case: spell(second + ("s" if case == "G" else ""), bit), 2, "known")

    def phrase(
        self, noun: Noun, determiner: str, plural: bool = False, count: int = 0, kein: int = 0, owner: Owner = None
    ) -> Nominal:
        """A noun with so many adjectives; see noun_phrase."""
        chosen = self.adjectives(noun, count)
        ids = tuple(self.bit() for _ in range(2 + len(chosen)))
        return noun_phrase(noun, determiner, plural, chosen, ids, kein, owner)

    def adjectives(self, noun: Noun, count: int) -> tuple[Adjective, ...]:
        """Up to two adjectives that suit a noun; the second is of age or colour, so that no comma parts them."""
        fitting = lexicon.fitting(noun)
        if count < 2:
            return (self.pick(fitting),) if count and fitting else ()
        first, second = ([a for a in fitting if (a.rank > 3) == late] for late in (False, True))
        return (self.pick(first), self.pick(second)) if first and second else ()

    def determiner(self, noun: Noun, plural: bool, known: Known) -> str:
        if noun.section in ("family", "parent"):
            return self.pick(OWNERS)
        definite = ["the"] * 4 + ["this"] + ([self.pick(OWNERS)] * 3 if among(noun, "mine") else [])
        indefinite = [""] * 3 if plural or among(noun, "mass") else ["a"] * 4
        return self.pick({True: definite, False: indefinite, None: definite + indefinite}[known])

    def thing(
        self, nouns: Sequence[Noun], known: Known = None, flags: Collection[str] = "", share: float = 0.3, kein: int = 0
    ) -> Nominal:
        """One of some nouns, with a determiner, in either number and at times with an adjective."""
        noun = self.pick(nouns)
        many = among(noun, "pair") or "p" in flags or (self.chance(0.25) and "1" not in flags)
        plural = many and bool(noun.german_plural)
        determiner = self.determiner(noun, plural, True if "d" in flags else known)
        return self.phrase(noun, determiner, plural, int(self.chance(share)), kein)

    def subject(self) -> Nominal:
        share = self.draw.random()
        if share < 0.33:
            return self.pronoun(self.pick(SPEAKERS))
        return self.name() if share < 0.55 else self.thing(resolve("people"), None if self.chance(0.2) else True)

    def other(self, subject: Nominal, pronouns: bool = True) -> Nominal:
        """Another person than the subject."""
        taken, share = subject.english[0][0].text, self.draw.random()
        if pronouns and share < 0.4:
            return self.pronoun(self.pick([who for who in SPEAKERS if who != taken and {who, taken} != {"I", "we"}]))
        return self.name() if share < 0.7 else self.thing(resolve("people"), known=True)

    def object(self, verb: Verb, subject: Nominal, known: Known, kein: int = 0) -> Nominal:
        """What a verb acts on, which is never who does it."""
        chosen = self.thing(resolve(*verb.objects), known, verb.flags, kein=kein)
        if chosen.person and "people" in verb.objects and known is None and self.chance(0.5):
            return self.other(subject, pronouns=verb.particle in ("", "at", "for", "to", "with"))
        return chosen

    def again(self, nominal: Nominal) -> Nominal | None:
        """The pronoun for what was named before; for somebody, only if both languages see the same sex."""
        word = nominal.english[0][0].text
        if nominal.agreement == 3 and word != "we":
            return self.pronoun("they")
        if not nominal.noun:
            return self.pronoun("he" if word in MEN else "she" if word in WOMEN else word)
        if nominal.person:
            return None if nominal.gender == "n" else self.pronoun({"m": "he", "f": "she"}[nominal.gender])
        return self.pronoun("it", nominal.gender)

    # Where and when

    def adverb(self, kinds: Sequence[str], place: int, slot: Slot) -> Part:
        adverb = self.pick(lexicon.adverbs(*kinds))
        return Part(*self.match(f"{adverb.english}/{adverb.german}", adverb.lemma), place, slot)

    def time(self, tense: str) -> Part:
        return self.adverb(TIMES.get(tense, ("future", "week")), 6, Slot.TIME)

    def at(self, *names: str) -> Part:
        """Where something happens."""
        noun = self.pick(resolve(*names))
        return self.near(noun.there, noun, "D", 5, Slot.PLACE)

    def near(self, words: str, noun: Noun, case: str, place: int, slot: Slot) -> Part:
        """A preposition and a place, which is known."""
        determiner = self.determiner(noun, False, True)
        return self.beside(words, self.phrase(noun, determiner, False, int(self.chance(0.2))), case, place, slot)

    def beside(self, words: str, nominal: Nominal, case: str, place: int, slot: Slot) -> Part:
        return prepositional(self.match(words), nominal, case, place, slot)

    # What happens

    def clause(self, subject: Nominal, verb: Verb, tense: str, *parts: Part) -> Clause:
        """A clause from all that it says."""
        made = Clause(subject, verb, tense, parts, self.bit(), self.bit())
        row = PERSONS.get(subject.english[0][0].text, PERSONS["he"])
        reflexive = Part((), spell(row[5], made.verb_id), 0, Slot.REFLEXIVE)
        return replace(made, parts=(reflexive, *parts)) if verb.reflexive else made

    def act(self, subject: Nominal, verb: Verb, tense: str, known: Known = None) -> Clause:
        """A clause in which a verb has all that it needs."""
        made = self.clause(subject, verb, tense)
        if verb.frame == "motion":
            goal = self.pick(resolve(*verb.objects))
            case = "D" if goal.thither.endswith("zu") else "A"
            return add(made, self.near(goal.thither, goal, case, 3, Slot.COMPLEMENT))
        takes = verb.objects and verb.frame != "stay"
        return self.onto(made, self.object(verb, subject, known)) if takes else made

    def onto(self, made: Clause, what: Nominal) -> Clause:
        """A clause with what its verb acts on."""
        verb = made.verb
        if verb.govern:
            alone: Both = (), spell(verb.govern[0], made.verb_id)
            words = self.match(f"{verb.preposition}/{verb.govern[0]}") if verb.preposition else alone
            return add(made, prepositional(words, what, verb.govern[1], 3, Slot.COMPLEMENT))
        made = add(made, thing(what, "D" if verb.frame == "dative" else "A"))
        if verb.frame == "put":
            return add(made, self.near(*self.pick(lexicon.spots(verb)), "A", 3, Slot.COMPLEMENT))
        if verb.frame != "ditransitive":
            return made
        to = self.other(made.subject)
        if to.english[1][0].text == "her" and what.english[1][0].lemma:  # her books: hers, or to her?
            to = self.name()
        return add(made, Part(to.english[1], to.german("D"), 1, Slot.RECIPIENT))

    def deny(self, made: Clause) -> Clause:
        """The contrary, with nicht."""
        bit = self.bit()
        return replace(add(made, Part((), spell("nicht", bit), 6, Slot.NOT)), negation=bit)

    def lack(self, made: Clause, known: Known) -> Clause:
        """The contrary, with kein if what the verb acts on is indefinite."""
        bit = 0 if made.verb.govern else self.bit()
        what = self.object(made.verb, made.subject, known, bit)
        made = self.onto(made, what)
        return replace(made, negation=bit) if bit and what.kind == "new" else self.deny(made)
