"""The constructions: each draws a sentence of one shape in both languages, or None if the draws do not go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tools.daily.lexicon import NUMBERS, Noun, Verb, among, pair, resolve
from tools.daily.phrases import Both, Clause, Nominal, Order, Part, Slot, Word, Words, comma, spell
from tools.daily.scene import SPEAKERS, Known, Scene, add, usable

from tools.daily import english, german, lexicon

Draft = tuple[Words, Words, str]  # both sides and the mark at their end
NOTHING: Both = ((), ())
THINGS = ("transitive", "separable")
DEEDS = (*THINGS, "dative", "ditransitive", "prepositional", "reflexive", "act", "motion")


def say(made: Clause, lead: Both = NOTHING, order: Order = "statement") -> Draft:
    """A clause as a whole sentence, after some words that lead it."""
    return made.english(order, lead[0]), made.german(order, lead[1]), "?" if order == "question" else ""


@cache
def special(infinitive: str) -> Verb:
    """A verb that is asked for by name."""
    return next(verb for verb in lexicon.verbs("special", "transitive", "that") if verb.german == infinitive)


def deed(s: Scene, tenses: str, *frames: str, subject: Nominal | None = None, known: Known = None) -> Clause:
    """What somebody does, in one of some tenses."""
    tense = s.pick(tenses.split("|"))
    verb = s.pick(usable("manner" if known else tense, *(frames or DEEDS)))
    return s.act(subject or s.subject(), verb, tense, known)


# One clause


def tell(s: Scene, tenses: str, frames: str, extra: str = "") -> Draft:
    """What somebody does, with something extra."""
    named = {"deeds": DEEDS, "things": THINGS}.get(frames, tuple(frames.split("+")))
    return finish(s, deed(s, tenses, *named, known=True if extra == "manner" else None), extra)


def finish(s: Scene, made: Clause, extra: str) -> Draft:
    """A clause with a question word, a time in front or one more part."""
    if "/" in extra:
        return say(made, s.match(extra), "question")
    if extra.startswith("ask"):
        return say(add(made, s.time(made.tense)) if extra == "ask time" else made, order="question")
    if extra == "front":
        return say(made, s.time(made.tense)[:2])
    if extra == "occasion":
        words, case, section = s.pick(lexicon.table("occasions"))[1].split()
        return say(made, s.beside(words, s.phrase(s.pick(resolve(section)), "the"), case, 6, Slot.TIME)[:2])
    return say(add(made, aside(s, made, extra)) if extra else made)


def aside(s: Scene, made: Clause, extra: str) -> Part:
    """A time, a manner, a place, a companion, somebody to do it for, or how often it is done."""
    if extra == "time":
        return s.time(made.tense)
    if extra == "manner":
        return s.adverb(("manner",), 4, Slot.MANNER)
    if extra == "place":
        return s.adverb(("here",), 5, Slot.PLACE) if s.chance(0.3) else s.at(*(made.verb.objects or ("place",)))
    if extra == "company":
        words, case = s.pick(["with/mit D", "without/ohne A"]).split()
        return s.beside(words, s.other(made.subject), case, 4, Slot.MANNER)
    if extra == "for":
        return s.beside("for/für", s.other(made.subject), "A", 3, Slot.COMPLEMENT)
    part = s.adverb((extra,), 0, Slot.TIME)  # often or done
    return part._replace(slot=Slot.NOT) if part.german[0].text == "schon" else part


def denied(s: Scene, tenses: str, frames: str, known: str, order: Order = "statement") -> Draft | None:
    """What somebody does not do, to something known, new or either."""
    tense = s.pick(tenses.split("|"))
    subject = s.pronoun("you") if order == "imperative" else s.subject()
    yet = [Part(*s.match("yet/noch"), 6, Slot.NOT)] if tense == "perfect" else []
    named = (*THINGS, "dative") if frames == "things" else (frames,)
    verb = special("haben") if frames == "have" else s.pick(usable(tense, *named))
    made = s.lack(s.clause(subject, verb, tense, *yet), {"known": True, "new": False, "either": None}[known])
    if known == "new" and "nicht" in (part.german[0].text for part in made.parts):
        return None  # not my brother
    return say(made, order=order)


def request(s: Scene, polite: str = "") -> Draft:
    """What a friend is told to do."""
    made = deed(s, "imperative", subject=s.pronoun("you"))
    return say(made, s.match(polite) if polite else NOTHING, "imperative")


def quality(s: Scene, nominal: Nominal, tense: str) -> Clause | None:
    """That somebody or something is so, if there is an adjective for it."""
    moods = [a for a in lexicon.fitting(lexicon.nouns()["man"]) if a.rank == 3]  # of those who are not described
    if not (chosen := lexicon.fitting(nominal.noun) if nominal.noun else moods):
        return None
    adjective = s.pick(chosen)
    part = Part(*s.match(f"{adjective.english}/{adjective.german}", adjective.lemma), 3, Slot.COMPLEMENT)
    return s.clause(nominal, special("sein"), tense, part)


def described(s: Scene, tense: str, extra: str = "") -> Draft | None:
    """What somebody or something is like."""
    group = s.pick(["people", "thing", "meal", "place", "beast", "text", "talk"])
    made = quality(s, s.subject() if s.chance(0.2) else s.thing(resolve(group), True, share=0), tense)
    if not made:
        return None
    return say(s.deny(made)) if extra == "not" else finish(s, made, extra)


def compared(s: Scene, words: str) -> Draft:
    """Bigger than, or as big as."""
    more = words == "than/als"
    adjective, bit = s.pick([a for a in lexicon.adjectives() if a.comparative != "-"]), s.bit()
    nouns = resolve(*adjective.nouns)
    first = s.thing(nouns, True, "1", share=0)
    second = s.thing([n for n in nouns if first.noun and n.section == first.noun.section], True, "1", share=0)
    so, link = NOTHING if more else s.match("as/so"), s.match(words)
    word = english.comparative(adjective) if more else adjective.english
    german_word = german.comparative(adjective) if more else adjective.german
    left = (*so[0], *spell(word, bit, adjective.lemma), *link[0], *second.english[1])
    right = (*so[1], Word(german_word, bit), *link[1], *second.german("N"))
    return say(s.clause(first, special("sein"), "simple", Part(left, right, 3, Slot.COMPLEMENT)))


def spot(s: Scene) -> Draft:
    """Where a thing lies, stands or is."""
    put = s.pick(lexicon.verbs("put"))
    lies = next(v for v in lexicon.verbs("posture") if v.english == {"put": "lie", "place": "stand"}[put.english])
    verb, tense = s.pick([(special("sein"), "simple"), (special("sein"), "past"), (lies, "progressive")])
    where = s.near(*s.pick(lexicon.spots(put)), "D", 5, Slot.COMPLEMENT)
    return say(s.clause(s.thing(resolve(*put.objects), True), verb, tense, where))


def there(s: Scene, words: str, extra: str = "") -> Draft:
    """There is, there was or there is no; `front` puts the place first."""
    things, places = s.pick(lexicon.table("scenery"))[1].split(" | ")
    noun, plural, where = s.pick(resolve(*things.split())), s.chance(0.3), s.at(*places.split())
    what = s.phrase(noun, "no" if extra == "no" else "" if plural else "a", plural, int(s.chance(0.3)))
    singular, many, gibt = words.split("/")
    it, verb = s.match("there/es"), s.match(f"{many if plural else singular}/{gibt}")
    if extra == "front":
        return (*where[0], *it[0], *verb[0], *what.english[1]), (*where[1], *verb[1], *it[1], *what.german("A")), ""
    return (*it[0], *verb[0], *what.english[1], *where[0]), (*it[1], *verb[1], *what.german("A"), *where[1]), ""


def having(s: Scene) -> Draft:
    made = s.clause(s.subject(), special("haben"), s.pick(["simple", "past"]))
    return say(s.onto(made, s.object(made.verb, made.subject, False)))


def together(s: Scene) -> Draft:
    """Two people do it."""
    first, second = (s.name() if s.chance(0.5) else s.thing(resolve("people"), True) for _ in range(2))
    return say(deed(s, "past|progressive|future|want to", subject=first.joined(second, s.match("and/und"))))


def shaped(s: Scene, kind: str, order: Order = "statement") -> Draft | None:
    """Something is done to things of an unusual shape."""
    tense = s.pick(["past", "progressive", "future", "want to"])
    verb = s.pick(usable(tense, *THINGS))
    what = shape(s, resolve(*verb.objects), kind)
    if not what or not kind.startswith("which"):
        return say(s.onto(s.clause(s.subject(), verb, tense), what), order=order) if what else None
    how = s.match("how/wie") if kind == "which many" else NOTHING
    lead = (*how[0], *what.english[1]), (*how[1], *what.german("A"))
    return say(s.clause(s.subject(), verb, tense), lead, "question")


def shape(s: Scene, nouns: Sequence[Noun], kind: str) -> Nominal | None:
    """Two of a kind, Peter's, the man's, with two adjectives, or so many."""
    noun, known = s.pick(nouns), s.chance(0.5)
    plural, count = s.chance(0.25) and bool(noun.german_plural), int(s.chance(0.3))
    if "/" in kind:
        alike = [other for other in nouns if other.section == noun.section]
        return s.thing([noun], known).joined(s.thing(alike, known), s.match(kind))
    if kind == "owner":
        owner = s.name() if known else s.thing(resolve("people"), True, share=0)
        return s.phrase(noun, "", plural, count, owner=owner) if among(noun, "mine") else None
    if kind == "two":
        both_kinds = len({adjective.rank > 3 for adjective in lexicon.fitting(noun)}) == 2
        return s.phrase(noun, s.determiner(noun, plural, None), plural, 2) if both_kinds else None
    words = {"number": [pair(number)[0] for number in NUMBERS], "which many": ["many"]}
    word = s.pick(words.get(kind, [kind]))
    usual = noun.german_plural and noun.section != "family"
    return s.phrase(noun, word, kind not in ("every", "which"), count) if usual else None


# Questions with a word


def wanted(s: Scene, words: str) -> Draft:
    """What or whom."""
    tense = s.pick(["past", "progressive", "future", "want to", "must", "can"])
    verbs = usable(tense, *(("dative",) if words == "whom/wem" else THINGS))
    people = {verb: {noun.section for noun in resolve(*verb.objects)} & {"person", "family"} for verb in verbs}
    verb = s.pick([v for v in verbs if ("people" in v.objects if words.startswith("whom") else not people[v])])
    made = s.clause(s.subject(), verb, tense, *([s.time(tense)] if s.chance(0.5) else []))
    return say(made, s.match(words), "question")


def who(s: Scene) -> Draft:
    word = s.match("who/wer")
    subject = Nominal((word[0], word[0]), lambda case: word[1], 2, "pronoun")
    return *say(deed(s, "past|progressive|future|want to", subject=subject))[:2], "?"


# Two clauses


def under(s: Scene, words: str, made: Clause) -> Both:
    """A subordinate clause after its conjunction."""
    first, second = s.match(words)
    return made.english("subordinate", first), made.german("subordinate", second)


def trail(draft: Draft, clause: Both) -> Draft:
    """A sentence with a clause after it, which German sets off by a comma."""
    return (*draft[0], *clause[0]), (*comma(draft[1]), *clause[1]), draft[2]


def weather(s: Scene, tense: str) -> Clause:
    return s.clause(s.pronoun("it"), s.pick(lexicon.verbs("weather")), tense)


def reason(s: Scene, words: str) -> Draft | None:
    """Because or although somebody is so, or it rains."""
    made = deed(s, "past|progressive")
    again, tense = s.again(made.subject), "past" if made.tense == "past" else "simple"
    if not again:
        return None
    state = weather(s, made.tense) if s.chance(0.25) else quality(s, again, tense)
    return trail(say(made), under(s, words, state)) if state else None


def condition(s: Scene, place: str) -> Draft | None:
    """If it is so, first or last."""
    name = s.pick(SPEAKERS)
    case = weather(s, "simple") if s.chance(0.2) else quality(s, s.pronoun(name), "simple")
    made = deed(s, "future|can|must|should|may", subject=s.pronoun(name))
    if not case:
        return None
    sides = under(s, "if/wenn", case)
    return say(made, (comma(sides[0]), comma(sides[1]))) if place == "first" else trail(say(made), sides)


def reported(s: Scene) -> Draft:
    """Somebody knows, hopes or says that it is so."""
    verb = s.pick(lexicon.verbs("that"))
    tense = "past" if "q" in verb.flags else "simple"
    inner = deed(s, "past" if tense == "past" else "past|progressive|future|can")
    return trail(say(s.clause(s.subject(), verb, tense)), under(s, "that/dass", inner))


def doubted(s: Scene) -> Draft:
    """Somebody does not know or asks whether it is so."""
    tense = s.pick(["simple", "past", "progressive"])
    made = s.clause(s.subject(), special("wissen" if tense == "simple" else "fragen"), tense)
    inner = deed(s, "past" if tense == "past" else "past|progressive|future|can")
    return trail(say(s.deny(made) if tense == "simple" else made), under(s, "whether/ob", inner))


def relative(s: Scene, role: str) -> Draft | None:
    """The man who helps, whom I see or whom I help, and what he is like."""
    tense = s.pick(["past", "progressive"])
    verb = s.pick(usable(tense, *{"N": DEEDS, "A": THINGS, "D": ("dative",)}[role]))
    noun = s.pick(resolve("person") if role == "N" else resolve(*verb.objects))
    head = s.phrase(noun, "the", bool(noun.german_plural) and s.chance(0.3))
    word = "who" if role == "N" else "whom" if head.person else "that"
    link = s.match(f"{word}/{german.relative(head.gender, role)}")
    if role == "N":
        subject = Nominal((link[0], link[0]), lambda case: link[1], head.agreement, "pronoun")
        made, lead = s.act(subject, verb, tense), NOTHING
    else:
        made, lead = s.clause(s.subject(), verb, tense), link
    sides = made.english("subordinate", lead[0]), made.german("subordinate", lead[1])
    main = quality(s, head.extended(sides), s.pick(["simple", "past"]) if tense == "past" else "simple")
    return say(main) if main else None


def purpose(s: Scene) -> Draft:
    """Goes somewhere to do something."""
    main = deed(s, "past|progressive|future", "motion")
    inner = deed(s, "imperative", *THINGS, "dative", subject=main.subject)
    return trail(say(main), (inner.english("infinitive"), inner.german("infinitive", (Word("um", inner.tense_id),))))


def attempt(s: Scene) -> Draft:
    """Tries to do something."""
    verb, subject = s.pick(lexicon.verbs("infinitive")), s.subject()
    tense = "simple" if "s" in verb.flags else "past" if "q" in verb.flags else s.pick(["past", "progressive"])
    inner = deed(s, "imperative", subject=subject)
    return trail(say(s.clause(subject, verb, tense)), (inner.english("infinitive"), inner.german("infinitive")))


def both(s: Scene, words: str, tenses: str) -> Draft:
    """Two things happen."""
    tense, link = s.pick(tenses.split("|")), s.match(words)
    first, second = say(deed(s, tense)), say(deed(s, tense))
    ends = (comma(first[0]), comma(first[1])) if words == "but/aber" else first[:2]
    return (*ends[0], *link[0], *second[0]), (*ends[1], *link[1], *second[1]), ""


FAMILIES: dict[str, Callable[..., Draft | None]] = {
    "tell": tell, "denied": denied, "request": request, "described": described, "compared": compared, "spot": spot,
    "there": there, "having": having, "together": together, "shaped": shaped, "wanted": wanted, "who": who,
    "reason": reason, "condition": condition, "reported": reported, "doubted": doubted, "relative": relative,
    "purpose": purpose, "attempt": attempt, "both": both,
}  # fmt: skip
