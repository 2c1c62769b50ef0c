"""The forms of German words: cases are N, A, D and G, and `p` is the plural among the genders."""

from __future__ import annotations

import re

from tools.daily.lexicon import Adjective, Noun, Verb, table

CASES = "NADG"
_ARTICLE = {"m": "der den dem des", "f": "die die der der", "n": "das das dem des", "p": "die die den der"}
_DIES = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
_EIN = {"m": "- en em es", "f": "e e er er", "n": "- - em es", "p": "e e en er"}
ENDINGS = {
    "strong": {"m": "er en em en", "f": "e e er er", "n": "es es em en", "p": "e e en er"},
    "weak": {"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"},
    "mixed": {"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"},
}
_RELATIVE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die denen"}
CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans",
    ("zu", "dem"): "zum", ("zu", "der"): "zur", ("von", "dem"): "vom", ("bei", "dem"): "beim",
}  # fmt: skip
AUXILIARIES = dict(table("auxiliaries"))
_WITHOUT_GE = re.compile(r"be|ent|er|ge|ver|.*ieren$")
_GENITIVES = {"Chef": "Chefs", "Clown": "Clowns", "Koch": "Kochs", "Park": "Parks", "Bus": "Busses"}


def _form(row: str, case: str) -> str:
    return row.split()[CASES.index(case)].strip("-")


def determiner(stem: str, kind: str, gender: str, case: str) -> str:
    """The article or what stands in its place, by the kind of its endings: der, dies, ein, or none that change."""
    if kind == "der":
        return _form(_ARTICLE[gender], case)
    return stem + ("" if kind == "fixed" else _form((_DIES if kind == "dies" else _EIN)[gender], case))


def adjective(word: Adjective, strength: str, gender: str, case: str) -> str:
    stem = re.sub(r"e([lr])$", r"\1", word.german) if re.search(r"(uer|el)$", word.german) else word.german
    return stem.removesuffix("e") + _form(ENDINGS[strength][gender], case)


def comparative(word: Adjective) -> str:
    return word.german_comparative or word.german.removesuffix("e") + "er"


def noun(word: Noun, plural: bool, case: str) -> str:
    if plural:
        ends = case == "D" and not word.german_plural.endswith(("n", "s"))
        return word.german_plural + ("n" if ends else "")
    if word.weak and case != "N":
        return word.german_plural
    return genitive(word.german) if case == "G" and word.gender != "f" else word.german


def genitive(word: str) -> str:
    """With -es after a hiss or in one syllable: des Hauses, des Mannes, but des Lehrers."""
    short = re.fullmatch("[^aeiouäöüy]*[aeiouäöüy]+[^aeiouäöüyé]+", word.lower())
    return _GENITIVES.get(word, word + ("es" if short or re.search("(s|ß|z|sch)$", word) else "s"))


def relative(gender: str, case: str) -> str:
    return _form(_RELATIVE[gender], case)


def stem(verb: Verb) -> str:
    return verb.german[:-2] if verb.german.endswith("en") else verb.german[:-1]


def _softened(verb: Verb) -> str:
    """The stem before -t and -st: arbeite, öffne, but wohn."""
    base = stem(verb)
    return base + ("e" if re.search(r"([td]|[^aeiouäöülrhmn][mn]|ch[mn])$", base) else "")


def third(verb: Verb) -> str:
    return verb.third or _softened(verb) + "t"


def present(verb: Verb, agreement: int) -> str:
    """What ich, du, er or wir do, without the prefix."""
    if verb.german in AUXILIARIES:
        return AUXILIARIES[verb.german].split()[agreement]
    if agreement == 0:
        return (stem(verb) if verb.german.endswith("en") else re.sub("el$", "l", stem(verb))) + "e"  # sammle, füttere
    if agreement == 1:
        he = third(verb)
        if stem(verb).endswith("t") and not he.endswith("et"):  # hält
            return he + "st"
        return he if re.search(r"[sßxz]t$", he) else he[:-1] + "st"
    return third(verb) if agreement == 2 else verb.german


def participle(verb: Verb) -> str:
    if verb.participle:
        return verb.prefix + verb.participle
    return verb.prefix + ("" if _WITHOUT_GE.match(verb.german) else "ge") + _softened(verb) + "t"


def imperative(verb: Verb) -> str:
    """What du is told to do, without the prefix: iss, komme, kaufe, schneide."""
    return verb.third[:-1] if verb.third and "ä" not in verb.third else present(verb, 0)
