"""Every German form of the demo corpus against a dictionary made by others: Debian's hunspell-de-de."""

import shutil
import subprocess

import pytest
from tests.tools.daily.forms import german_forms

from tools.daily import lexicon

PREFIXES = sorted({verb.prefix for verb in lexicon.verbs() if verb.prefix}, key=len, reverse=True)


def unknown(words: list[str]) -> list[str]:
    command = ["hunspell", "-d", "de_DE", "-i", "utf-8", "-l"]
    told = subprocess.run(command, input="\n".join(words), capture_output=True, text=True, check=True)
    return told.stdout.split()


def parts(word: str) -> list[str]:
    """A separable verb's form as prefix, zu and the rest: the dictionary has aufisst and abzuwaschen only so."""
    prefix = next((prefix for prefix in PREFIXES if word.startswith(prefix)), "")
    rest = word.removeprefix(prefix)
    return [part for part in ([prefix, "zu", rest[2:]] if rest.startswith("zu") else [prefix, rest]) if part]


@pytest.mark.skipif(shutil.which("hunspell") is None, reason="needs Debian's hunspell and hunspell-de-de")
def test_every_german_form_is_in_the_dictionary() -> None:
    assert unknown(["Apfell", "gegesst"]) == ["Apfell", "gegesst"]
    missing = unknown(sorted(german_forms()))
    split = {form: parts(form) for form in missing}
    wrong = {form for form, found in split.items() if len(found) == 1 or unknown(found)}
    assert not wrong
    assert len(missing) <= 20, missing
