"""An encoder alone, ready to fill blanks and to make vectors of texts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.text import lines
from regard.data.tokenizer import MASK
from regard.errors import UserError
from regard.progress import warn
from regard.shapes import Padded, Row
from regard.tasks.mlm.config import EncodeOptions
from regard.tasks.options import Texts, listed
from regard.tasks.runnable import Evaluation, Prediction, Predictions, Runnable, Tick, ids_of, ignore
from regard.tasks.running_spec import TextEvaluation
from regard.tasks.running_text import evaluated


@dataclass(frozen=True)
class Filled:
    """A text without blanks, and for each blank the likeliest words with their probabilities."""

    text: str
    blanks: list[list[tuple[str, float]]]


class Encoder(Runnable):
    """An encoder: `model("The [MASK] barks")` fills blanks, `model.embed(texts)` makes vectors."""

    def __call__(self, texts: str | Texts, *, num_best: int = 1) -> Filled | list[Filled]:
        found = self.fill(listed(texts), num_best)
        return found[0] if isinstance(texts, str) else found

    def predict(self, texts: Texts, options: EncodeOptions, *, first: int = 1, tick: Tick = ignore) -> Predictions:
        for number, text in enumerate(texts, first):
            if len(self.read(text)) == self.max_length:
                warn(f"line {number} is longer than {self.max_length} tokens; the rest of it is not read")
        if options.near is not None:
            return self._neighbours(texts, options.near, options.num_best)
        if options.vectors:
            rows = [[round(x, 7) for x in row] for row in self.embed(texts, tick).tolist()]
            return [Prediction(json.dumps(row), {"vector": row}) for row in rows]
        self.check_guesses()
        if not any(MASK in text for text in texts):
            warn(f"nothing to fill: blanks are written {MASK}, as in: The {MASK} barks. Or use `vectors`")
        predictions = []
        for each in self.fill(texts, options.num_best, tick):
            shown = [" ".join(f"{word} {p:.3f}" for word, p in blank) for blank in each.blanks]
            blanks = [[{"word": word, "probability": p} for word, p in blank] for blank in each.blanks]
            predictions.append(Prediction("\t".join([each.text, *shown]), {"text": each.text, "blanks": blanks}))
        return predictions

    def _neighbours(self, texts: Texts, file: Path, num_best: int) -> Predictions:
        """The lines of a file that are nearest to each text, with the cosine of the angle between."""
        others = [text for text in lines(file, strict=False) if text.strip()]
        if not others:
            raise UserError(f"{file}: holds no line to be near to; give a file with text")
        near = (self.embed(texts) @ self.embed(others).T).topk(min(num_best, len(others)))
        predictions = []
        for numbers, cosines in zip(near.indices.tolist(), near.values.tolist(), strict=True):
            found = [(others[i], cosine) for i, cosine in zip(numbers, cosines, strict=True)]
            line = "\t".join(f"{text}\t{cosine:.3f}" for text, cosine in found)
            predictions.append(Prediction(line, {"outputs": [{"text": text, "cosine": c} for text, c in found]}))
        return predictions

    def served(self) -> dict[str, Any]:
        about = {**super().served(), "dimensions": self.model.config.out_width}
        if self.model.guess is None:
            return {**about, "options": {"vectors": True}}
        return {**about, "reads": f"a text with {MASK} for each missing word", "options": {"num_best": 5}}

    def evaluated(self, options: TextEvaluation) -> Evaluation:
        """How well tokens are predicted that are taken out, the same at every call."""
        from regard.tasks.mlm.task import Blanks, guess_blanks

        self.check_guesses()
        blanks = Blanks(self.tokenizer, context=self.max_length, pairs=self.model.config.next_sentence)
        return evaluated(self, options, lambda text, tick: guess_blanks(self.model, blanks, text.ids[1:], 8, tick))

    def read(self, text: str) -> list[int]:
        """As the model reads a text; of one that is too long, the beginning."""
        mask, ids = [self.model.mask], list[int]()
        for number, part in enumerate([text] if mask == [None] else text.split(MASK)):
            spaced = number == 0 or part[:1].isspace()
            found = self.tokenizer.encode([part.strip()], spaced=spaced)[0] if part.strip() else []
            ids += [*(mask if number else []), *found]
        return [self.model.start, *ids[: self.max_length - 2], self.model.end]

    @torch.no_grad()
    def fill(self, texts: Texts, num_best: int = 1, tick: Tick = ignore) -> list[Filled]:
        """Each blank by its likeliest word, all at once."""
        self.check_guesses()
        texts = listed(texts)
        found = [Filled("", [])] * len(texts)
        for members, batch in self.batches([self.read(text) for text in texts], tick):
            blank = batch.tokens == self.model.mask
            probable = self.model.guess(self.model(batch)[blank]).softmax(-1).topk(num_best)
            words = [[self.tokenizer.decode([i]).strip() for i in row] for row in probable.indices.tolist()]
            guesses = iter(list(zip(*both, strict=True)) for both in zip(words, probable.values.tolist(), strict=True))
            for i, count in zip(members, blank.sum(1).tolist(), strict=True):
                own = [next(guesses) for _ in range(count)]
                found[i] = Filled(_joined(texts[i], [guess[0][0] for guess in own]), own)
        return found

    @torch.no_grad()
    def embed(self, texts: str | Texts, tick: Tick = ignore) -> Tensor:
        """Vectors of length 1 (N, C): the mean of a text's tokens in the last layer [Reimers+ 2019], or the first."""
        texts = listed(texts)
        found = torch.zeros(len(texts), self.model.config.out_width)
        for members, batch in self.batches([self.read(text) for text in texts], tick):
            x = self.model(batch)
            counts = torch.ones_like(batch.lengths) if self.model.config.pooling == "first" else batch.lengths
            pooled = torch.arange(x.shape[1])[None] < counts[:, None]
            found[members] = F.normalize((x * pooled[..., None]).sum(1) / counts[:, None], dim=-1)
        return found

    @torch.no_grad()
    def logits(self, ids: Any) -> Tensor:
        """Of the word at each of ids: (B, T, V), or (T, V) of one row."""
        self.check_guesses()
        rows, alone = ids_of(ids, self.model.config.vocabulary)
        logits: Tensor = self.model.guess(self.model(rows))
        return logits[0] if alone else logits

    def reading(self, text: str) -> tuple[Callable[[Any, Any], Any], Row]:
        return lambda rows, site: self.model(Padded.of(rows), site), self.read(text)

    def check_guesses(self) -> None:
        """Raise for a model that makes vectors only."""
        if self.model.guess is None:
            raise UserError("this model makes vectors and guesses no words; use `vectors`, or .embed(texts)")


def _joined(text: str, words: Texts) -> str:
    first, *rest = text.split(MASK)
    filled = [word + part for word, part in zip(words, rest, strict=False)]
    return first + "".join(filled) + "".join(MASK + part for part in rest[len(filled) :])
