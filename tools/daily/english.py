"""The forms of English words."""

from __future__ import annotations

import re

from tools.daily.lexicon import Adjective, Noun, Verb

BE = {"simple": ("am", "are", "is", "are"), "past": ("was", "were", "was", "were")}  # I, you, he, they
_DOUBLED = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]|begin|forget|travel")  # run, running
_AN = re.compile(r"(?!use|uni|one|eu)[aeiou]|hon|hour")
_SHORT = ("clever", "narrow", "quiet")  # two syllables, but cleverer


def article(following: str) -> str:
    """The form of `a` before a word."""
    return "an" if _AN.match(following) else "a"


def _hissed(word: str) -> str:
    """With the ending -s of plurals and he-forms."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh|go)$", word) else "s")


def _stem(word: str) -> str:
    """What an ending that begins with a vowel is joined to: mak(ing), runn(ing)."""
    return word + word[-1] if _DOUBLED.fullmatch(word) else re.sub(r"(?<!e)e$", "", word)


def plural(noun: Noun) -> str:
    return noun.plural or _hissed(noun.english)


def owner(word: str, plural: bool) -> str:
    return word + ("'" if plural and word.endswith("s") else "'s")


def third(verb: Verb) -> str:
    return "has" if verb.english == "have" else _hissed(verb.english)


def progressive(verb: Verb) -> str:
    return _stem(re.sub("ie$", "y", verb.english)) + "ing"


def past(verb: Verb) -> str:
    return verb.past or re.sub(r"([^aeiou])y$", r"\1i", _stem(verb.english)).removesuffix("e") + "ed"


def participle(verb: Verb) -> str:
    return verb.past_participle or past(verb)


def comparative(adjective: Adjective) -> str:
    word = adjective.english
    if adjective.comparative:
        return adjective.comparative
    if len(re.findall("[aeiouy]+", re.sub("[ey]$", "", word))) > 1 and not word.endswith("y") and word not in _SHORT:
        return f"more {word}"
    return re.sub("y$", "i", _stem(word)) + "er"
