"""What is asked of the `tokenizers` library: models that know no control tokens, and what their symbols spell."""

import json
import re
from collections.abc import Iterable
from itertools import accumulate

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.config import TokenizerConfig, TokenizerKind

# The library wants a symbol for the unknown, its id 0; no word holds a space, and no character is two.
MISSING = {"words": " ", "characters": "??"}
MODELS = {"bpe": models.BPE, "unigram": models.Unigram, "words": models.WordLevel, "characters": models.WordLevel}
FORMS = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}

# GPT-2's alphabet: a visible byte stands for itself, the others follow from U+0100 on.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
BYTES = {chr(b): b for b in _VISIBLE} | {chr(0x100 + n): b for n, b in enumerate(_HIDDEN)}


def learn(texts: Iterable[str], config: TokenizerConfig, room: int) -> Tokenizer:
    """Train a model of at most `room` symbols, the unknown not counted."""
    library = Tokenizer(MODELS[config.kind]())
    if config.normalise in FORMS:
        library.normalizer = FORMS[config.normalise]()
    set_parts(library, config.kind)
    library.train_from_iterator((prepared(text, config.kind) for text in texts), _trainer(config.kind, room))
    if config.kind in MISSING:
        missing, vocab = MISSING[config.kind], library.get_vocab()
        words = [missing, *sorted(vocab, key=vocab.__getitem__)]
        library.model = models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=missing)
    elif config.kind == "unigram":
        # As many digits as the library's JSON is sure to keep, so that a loaded model is the trained one.
        scores = [(piece, round(score, 9)) for piece, score in json.loads(library.to_str())["model"]["vocab"]]
        library.model = models.Unigram(sorted(scores, key=lambda item: (-item[1], item[0])))
    return library


def prepared(text: str, kind: TokenizerKind) -> str:
    """Valid Unicode, and for subwords a space in front, so that the first word is like the others."""
    return f" {valid_unicode(text)}" if kind in ("bpe", "unigram") else valid_unicode(text)


def valid_unicode(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def set_parts(library: Tokenizer, kind: TokenizerKind) -> None:
    """Everything but model and normaliser follows from the kind, whatever a file says."""
    library.no_padding()
    library.no_truncation()
    if kind == "words":
        # A line end is a word of its own, as published perplexities count it.
        spaces, ends = pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"), pre_tokenizers.Split("\n", "isolated")
        library.pre_tokenizer = pre_tokenizers.Sequence([spaces, ends])
    elif kind == "characters":
        library.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        library.decoder = decoders.Fuse()
    else:
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()


def _trainer(kind: TokenizerKind, room: int) -> trainers.Trainer:
    if kind in MISSING:
        return trainers.WordLevelTrainer(vocab_size=room, show_progress=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if kind == "unigram":
        return trainers.UnigramTrainer(vocab_size=room, show_progress=False, initial_alphabet=alphabet)
    return trainers.BpeTrainer(vocab_size=room, min_frequency=2, show_progress=False, initial_alphabet=alphabet)


def label(spelled: bytes) -> str:
    """Something to print: a space shows as ▁, part of a character as its bytes, such as <C3>."""
    try:
        text = spelled.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in spelled)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def word_numbers(spelled: list[bytes]) -> list[int]:
    """The word that each piece ends in; white space belongs to the word after it."""
    runs = re.findall(r"\s*\S+|\s+", b"".join(spelled).decode("utf-8", "surrogateescape"))
    numbers = [n for n, run in enumerate(runs) for _ in run.encode("utf-8", "surrogateescape")]  # of each byte
    return [numbers[end - 1] if end else 0 for end in accumulate(map(len, spelled))]  # an id may spell nothing
