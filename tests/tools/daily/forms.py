"""Every word form that the demo corpus can have."""

from functools import cache
from itertools import product

from tools.daily.clauses import DEEDS
from tools.daily.lexicon import MEN, NUMBERS, WOMEN, among, pair, table, words
from tools.daily.phrases import DETERMINERS

from tools.daily import german, lexicon


@cache
def german_forms() -> frozenset[str]:
    """Every German word form that a sentence can have, without marks and as it is written inside a sentence."""
    found = set(words("others")) | {word for forms in german.AUXILIARIES.values() for word in forms.split()}
    found |= {*german.CONTRACTIONS.values(), *(pair(word)[1] for word in NUMBERS)}
    found |= {name + end for name in (*MEN, *WOMEN) for end in ("", "s")}
    found |= {word for _, row in table("pronouns") for word in row.split()[2:]}
    found |= {word for adverb in lexicon.adverbs() for word in adverb.german.replace("_", " ").split()}
    for gender, case in product("mfnp", german.CASES):
        found |= {german.determiner(stem, kind, gender, case) for stem, kind, _ in DETERMINERS.values()}
        found |= {german.adjective(*word, gender, case) for word in product(lexicon.adjectives(), german.ENDINGS)}
    for adjective in lexicon.adjectives():
        found |= {adjective.german, german.comparative(adjective)}
    for noun in lexicon.nouns().values():
        owning = among(noun, "people", "event", "weather")
        found |= {german.noun(noun, False, case) for case in (german.CASES if owning else "NAD")}
        found |= {german.noun(noun, True, case) for case in "ND" if noun.german_plural}
    for verb in lexicon.verbs():
        present = {german.present(verb, agreement) for agreement in range(4)}
        found |= present | {verb.prefix + form for form in present}
        found |= {verb.prefix, verb.prefix + verb.german, german.participle(verb)}
        found |= {f"{verb.prefix}zu{verb.german}"} if verb.prefix else set()
        found |= {german.imperative(verb)} if verb.frame in DEEDS and "s" not in verb.flags else set()
    return frozenset(found - {""})
