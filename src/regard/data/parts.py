"""Which parts of the `tokenizers` library a file may name: those of known families, few of them, and none that can run
away. The library trusts its files: others end in gigabytes, in minutes, or in an abort of the whole process."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Library

from regard.errors import UserError

LONGEST = 512  # bytes that one character may become, or that a piece may have
MOST_PARTS, MOST_ADDED = 12, 20_000
LARGEST_PART = 4096  # characters of a part's settings
PARTS = {
    "normalizer": "BertNormalizer Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace Strip StripAccents",
    "pre_tokenizer": "BertPreTokenizer ByteLevel Digits Metaspace Punctuation Split Whitespace WhitespaceSplit",
    "decoder": "BPEDecoder ByteFallback ByteLevel Fuse Metaspace Replace Strip WordPiece",
    "post_processor": "BertProcessing ByteLevel RobertaProcessing TemplateProcessing",
}
STEPS = ("normalizers", "pretokenizers", "decoders", "processors")  # of a Sequence of each
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {  # no other regular expression is run: some take longer than anyone waits
    " {2,}", "^ +", "▁+$", "^▁+$", " +▁", r"\s+", r"[\s\S]", r"[^\S\n]+", r"\n", "[\\r\\n]", r"[\n\r\t]",
    r"\s{2,}|[\n\r\t]", r"\s?\p{L}+", r"\s?\p{P}+", r"\p{N}", "[一-龥ࠀ-一가-퟿]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    _WORDS % "{1,3}", _WORDS % "",  # Llama 3, and those after GPT-4's
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",  # Mistral
}  # fmt: skip


@contextmanager
def no_panic(what: str = "") -> Iterator[None]:
    """The library raises plain Exception, and panics by what is none; both become a UserError, or without `what` a
    ValueError."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        reason = f"{error}"[:200] or repr(error)
        raise (UserError(f"{what} ({reason}); copy it again") if what else ValueError(reason)) from error


@no_panic()
def load_library(content: Mapping[str, Any]) -> Library:
    """Raises ValueError for a tokenizer that is none, or has parts that are not known."""
    for (role, known), steps in zip(PARTS.items(), STEPS, strict=True):
        part = content.get(role) or {"type": "Sequence", steps: []}
        parts = part[steps] if part["type"] == "Sequence" else [part]
        if len(parts) > MOST_PARTS or sum(each["type"] == "Precompiled" for each in parts) > 1:
            raise ValueError(f"a {role} of {len(parts)} parts; at most {MOST_PARTS} are read, and one Precompiled")
        for each in parts:
            if each["type"] not in known.split():
                raise ValueError(f"a {role} of type {each['type']!r:.60}; known are {known}")
            _check_part(each)
    model, added = content["model"], content.get("added_tokens") or ()
    settings = json.dumps({name: value for name, value in model.items() if name not in ("vocab", "merges")})
    if len(settings) > LARGEST_PART or len(added) > MOST_ADDED or model.get("max_input_chars_per_word", 0) > 1000:
        raise ValueError("too long a word, too much text in its settings, or too many added tokens")
    if model.get("type") == "Unigram" and not all(piece for piece, _ in model["vocab"]):
        raise ValueError("a piece without a character")  # of which a text would hold endlessly many
    return Library.from_str(json.dumps(content))


def _check_part(part: Mapping[str, Any]) -> None:
    rest = {name: value for name, value in part.items() if name != "precompiled_charsmap"}
    if len(json.dumps(rest)) > LARGEST_PART:
        raise ValueError(f"a {part['type']} of more than {LARGEST_PART} characters")
    if "precompiled_charsmap" in part:
        check_charsmap(base64.b64decode(part["precompiled_charsmap"]))
    if isinstance(pattern := part.get("pattern"), dict):
        text = pattern.get("Regex", pattern.get("String"))
        if not text or ("Regex" in pattern and text not in PATTERNS):
            raise ValueError(f"the pattern {text!r:.60}, which is none of the known ones")
        if len(part.get("content", "")) > len(text if "String" in pattern else " "):
            raise ValueError(f"a replacement of {text!r:.60} that is longer")  # a chain of them would grow without end


def check_charsmap(data: bytes) -> None:
    """Every step stays in the trie and every end in its texts; the library would trust them and crash."""
    size = int.from_bytes(data[:4], "little")
    units = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64)
    texts = np.frombuffer(data[4 + size :], np.uint8)
    children = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6))  # as Darts packs them
    inner = units >> 31 == 0
    inner[0] = True
    if size % 1024 or (children[inner] >= len(units)).any():  # 256 children each
        raise ValueError("its map of characters leads astray")
    ends, longest = units[children[inner & (units & 256 > 0)]] & 0x7FFFFFFF, max(map(len, texts.tobytes().split(b"\0")))
    if (ends >= len(texts)).any() or (texts[ends] & 0xC0 == 0x80).any() or longest > LONGEST:
        raise ValueError("its map of characters ends astray")
