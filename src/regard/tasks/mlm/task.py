"""Masked words: an encoder learns by guessing words that were taken out of a text [Devlin+ 2019, section 3.1]."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.site import Site
from regard.data.tokenizer import MASK, PADDING, Tokenizer
from regard.errors import UserError
from regard.models.bert import Bert
from regard.rng import Key, uniforms
from regard.shapes import Padded
from regard.tasks.folder import Loaded
from regard.tasks.mlm.config import MaskedRecipe
from regard.tasks.runnable import Tick, ignore
from regard.tasks.running_text import Ids, Text, TextTask, held_out, ids_for, tokenizer_for
from regard.tasks.task import Carry, Loss

HIDDEN, SWAPPED = 0.8, 0.1  # of the words taken out: shown as blanks, and as any word; the rest stay
FIXED = Key(0, ("blanks",))  # the same words are taken out at every evaluation
CUT, OTHER, PLACE, CHOSEN, HOW, WORD = range(6)  # what is drawn


def prepare(recipe: MaskedRecipe, folder: Path, base: Loaded | None = None) -> "MaskedModelling":
    """The text to train on, and what is held out of it."""
    data, tokenizer = recipe.data, tokenizer_for(recipe.data, folder, [MASK])
    whole_words, pairs = data.whole_word_masking, recipe.model.next_sentence
    blanks = Blanks(tokenizer, context=data.context, share=data.mask_rate, whole_words=whole_words, pairs=pairs)
    ids, held = ids_for(data, tokenizer, folder), held_out(data, tokenizer)
    return MaskedModelling(blanks, ids, held, batch_tokens=recipe.train.batch_tokens)


@dataclass(frozen=True, eq=False)
class Cloze:
    """A batch of texts with blanks."""

    texts: Padded
    other: Tensor  # 1 where the second part comes from another place (B,)
    chosen: Tensor  # where to guess (B, T)
    wanted: Tensor  # the words there (N,)


class Blanks:
    """How words are taken out of one long row of ids: whatever is drawn is a function of a key and of places in the
    row, so that neither batches nor what was drawn before matter."""

    def __init__(
        self, tokenizer: Tokenizer, *, context: int, share: float = 0.15, whole_words: bool = False, pairs: bool = False
    ) -> None:
        """`pairs`: each text has two parts, of which half the time the second does not follow the first."""
        self.context, self.share, self.whole_words, self.pairs = context, share, whole_words, pairs
        self.start, self.end = (_known(tokenizer, *names) for names in (("[CLS]", "<start>"), ("[SEP]", "</s>")))
        self.mask = _known(tokenizer, MASK)
        self.window = context - (3 if pairs else 2)
        """Ids of a text without its marks."""
        every = range(tokenizer.vocabulary)
        self.is_word = np.array([tokenizer.is_word(i) for i in every])
        self.begins = np.array([tokenizer.begins_word(i) for i in every])
        self.words = self.is_word.nonzero()[0]

    def take_out(self, ids: Ids, starts: Ids, key: Key) -> Cloze:
        """[start] text [end], or [start] part [end] part [end], of the ids from each of `starts` on."""
        at, starts = np.arange(self.context), starts[:, None]
        length = np.minimum(self.window, len(ids) - starts)
        cut, second, other = length, starts, np.zeros_like(starts)
        if self.pairs:
            cut = (length * (1 + 2 * uniforms(key, starts, CUT)) / 4).astype(np.int64)  # somewhere in the middle half
            second, other = starts + cut, (uniforms(key, starts, OTHER) < 0.5).astype(np.int64)
            place = (uniforms(key, starts, PLACE) * (len(ids) - length + cut)).astype(np.int64)
            second = np.where(other, place + (place >= second), second)  # any place but the one that follows
        rest, last = at > cut + 1, length + self.context - self.window - 1
        place = np.where(rest, second + at - cut - 2, starts + at - 1)  # in the row of ids (B, T)
        tokens = ids[place.clip(0, len(ids) - 1)].astype(np.int64)
        tokens[(at == cut + 1) | (at == last)] = self.end
        tokens[:, 0] = self.start
        tokens[at > last] = PADDING
        chosen, shown = self._choose(tokens, place, key)
        parts = torch.from_numpy(rest.astype(np.int64)) if self.pairs else None
        lengths = torch.from_numpy(last[:, 0] + 1)
        wanted, where = torch.from_numpy(tokens[chosen]), torch.from_numpy(chosen)
        return Cloze(Padded(torch.from_numpy(shown), lengths, parts), torch.from_numpy(other[:, 0]), where, wanted)

    def _choose(self, tokens: Ids, place: Ids, key: Key) -> tuple[Ids, Ids]:
        """Which tokens are to be guessed (B, T), and what is shown in their places (B, T)."""
        drawn, how, word = (uniforms(key, place, what) for what in (CHOSEN, HOW, WORD))
        if self.whole_words:  # the first piece decides
            first = np.where(self.begins[tokens], np.arange(self.context), 0)
            drawn = np.take_along_axis(drawn, np.maximum.accumulate(first, axis=1), axis=1)
        chosen = self.is_word[tokens] & (drawn < self.share)
        any_word = self.words[(word * len(self.words)).astype(np.int64)]
        shown = np.where(how < HIDDEN, self.mask, np.where(how < HIDDEN + SWAPPED, any_word, tokens))
        return chosen, np.where(chosen, shown, tokens)


class MaskedModelling(TextTask[Bert]):
    """Words that were taken out are guessed from both sides."""

    def __init__(self, blanks: Blanks, ids: Ids, held: Text | None, *, batch_tokens: int) -> None:
        super().__init__(ids, held, blanks.context, batch_tokens, marks=blanks.context - blanks.window)
        self.blanks = blanks
        self.sizes = (len(blanks.is_word), blanks.start, blanks.end, blanks.context, blanks.mask)

    def load(self, name: Ids) -> Ids:
        """Words are taken out in `loss`, which has the key."""
        return name

    def loss(self, model: Bert, batch: Ids, carry: Carry | None, key: Key | None) -> Loss:
        """Of each word that was taken out, and on average of whether the second part follows, added to each."""
        cloze = self.blanks.take_out(self.ids, batch, FIXED if key is None else key.fold("blanks"))
        site = Site(key, losses={})
        guesses, follows = _told(model, cloze, site)
        total, count = F.cross_entropy(guesses, cloze.wanted, reduction="sum"), len(cloze.wanted)
        if follows is not None:
            total = total + count * F.cross_entropy(follows, cloze.other)
        return Loss.of(site, total, float(max(1, count)))  # of a batch of marks alone, nothing is learned

    def score(self, model: Bert, text: Text) -> dict[str, float]:
        return guess_blanks(model, self.blanks, text.ids[1:], self.rows)


@torch.no_grad()
def guess_blanks(model: Bert, blanks: Blanks, ids: Ids, rows: int, tick: Tick = ignore) -> dict[str, float]:
    """Nats for each word that was taken out, and the share of them that is guessed; of texts in two parts, also the
    share of those that are told apart."""
    starts, lost, right, follow, count = np.arange(0, len(ids), blanks.window), 0.0, 0, 0, 0
    for at in range(0, len(starts), rows):
        tick(int(starts[at]))
        cloze = blanks.take_out(ids, starts[at : at + rows], FIXED)
        guesses, follows = _told(model, cloze, Site())
        lost += float(F.cross_entropy(guesses, cloze.wanted, reduction="sum"))
        right += int((guesses.argmax(-1) == cloze.wanted).sum())
        count += len(cloze.wanted)
        follow += 0 if follows is None else int((follows.argmax(-1) == cloze.other).sum())
    if not count:
        raise UserError(f"no word was taken out of {len(ids):,} tokens to validate on; give more text")
    found = {"loss": lost / count, "accuracy": right / count}
    return {**found, "next_accuracy": follow / len(starts)} if blanks.pairs else found


def _told(model: Bert, cloze: Cloze, site: Site) -> tuple[Tensor, Tensor | None]:
    """Logits of the words that were taken out (N, V), and of whether second parts follow or not (B, 2)."""
    assert model.guess is not None, "a model that predicts no tokens"
    x = model(cloze.texts, site)
    follows = None if cloze.texts.segments is None or model.follows is None else model.follows(model.pooled(x))
    return model.guess(x[cloze.chosen]), follows


def _known(tokenizer: Tokenizer, *names: str) -> int:
    """The id of the control token that has one of these names."""
    found = [i for i in map(tokenizer.id_of, names) if i is not None]
    if not found:
        raise UserError(f"the tokenizer has no {' or '.join(names)}; begin with an encoder's, or train one anew")
    return found[0]
