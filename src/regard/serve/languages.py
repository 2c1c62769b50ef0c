"""Which languages a model translates: as it was told, as its recipe has it, or as its folder is called."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian",
    "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
PAIR = re.compile(r"(?<![a-z])([a-z]{2,3})-([a-z]{2,3})(?![a-z])")
EMBEDDED = {"daily": ("en", "de")}
MOST = 1 << 20  # bytes of a recipe
Languages = tuple[str, str]


def directions(folder: Path, tags: Sequence[str], told: Languages | None) -> list[tuple[str, str, str | None]]:
    """Source, target and tag of each direction that a model has; what was told of it counts first."""
    corpora = _corpora(folder)
    if tags:
        known = {corpus.get("tag"): _of_corpus(corpus) for corpus in corpora}
        return [(*(known.get(tag) or ("source", tag)), tag) for tag in tags]
    if told is None:
        named = PAIR.findall(folder.resolve().name.lower())
        told = next(filter(None, [*map(_of_corpus, corpora), *named, ("source", "target")]))
    return [(*told, None)]


def _of_corpus(corpus: dict[str, Any]) -> Languages | None:
    if isinstance(name := corpus.get("corpus"), str):
        return next(iter(PAIR.findall(name)), EMBEDDED.get(name.partition("/")[0]))
    ends = [Path(str(corpus.get(side) or "")).suffix[1:].lower() for side in ("source", "target")]
    return (ends[0], ends[1]) if all(re.fullmatch("[a-z]{2,3}", end) for end in ends) and ends[0] != ends[1] else None


def _corpora(folder: Path) -> list[dict[str, Any]]:
    try:
        recipe = yaml.safe_load((folder / "recipe.yaml").read_bytes()[:MOST])
        return [corpus for corpus in recipe["data"]["train"] if isinstance(corpus, dict)]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return []
