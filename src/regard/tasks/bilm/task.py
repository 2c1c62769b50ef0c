"""Both ways: every token is told from those before it, and again from those after it [Peters+ 2018, section 3.1]."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.attention.site import Site
from regard.data.tokenizer import PADDING, Tokenizer
from regard.models.elmo import Elmo
from regard.nn.loss import cross_entropy
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.bilm.config import BilmRecipe
from regard.tasks.folder import Loaded
from regard.tasks.mlm.runtime import Encoder
from regard.tasks.runnable import Evaluation, Tick, ignore
from regard.tasks.running_spec import TextEvaluation
from regard.tasks.running_text import Ids, Text, TextTask, evaluated, held_out, ids_for, tokenizer_for
from regard.tasks.task import Carry, Loss

MARKS = 2  # the start and the end of a window


def prepare(recipe: BilmRecipe, folder: Path, base: Loaded | None = None) -> "BothWays":
    """The text to train on, and what is held out of it."""
    data, tokenizer = recipe.data, tokenizer_for(recipe.data, folder)
    ids, held = ids_for(data, tokenizer, folder), held_out(data, tokenizer)
    return BothWays(tokenizer, ids, held, context=data.context, batch_tokens=recipe.train.batch_tokens)


class BothWays(TextTask[Elmo]):
    """A window of text is read between marks, as a sentence will be; marks, which any window may get, are not told."""

    def __init__(self, tokenizer: Tokenizer, ids: Ids, held: Text | None, *, context: int, batch_tokens: int) -> None:
        super().__init__(ids, held, context, batch_tokens, MARKS)
        starts = [i for i in map(tokenizer.id_of, ("[CLS]", "<start>")) if i is not None]
        self.sizes = (tokenizer.vocabulary, [*starts, tokenizer.end][0], tokenizer.end, context)

    def load(self, name: Ids) -> Padded:
        return framed(self.ids, name, self.context, *self.sizes[1:3])

    def loss(self, model: Elmo, batch: Padded, carry: Carry | None, key: Key | None) -> Loss:
        site = Site(key, losses={})
        forward, backward, count = _told(model, batch, site)
        return Loss.of(site, forward + backward, 2.0 * count)

    def score(self, model: Elmo, text: Text) -> dict[str, float]:
        return tell_both_ways(model, text.ids[1:], self.context, self.rows)


class BidirectionalEncoder(Encoder):
    """As any encoder, but for how it is evaluated: how well each token is predicted from either side."""

    def evaluated(self, options: TextEvaluation) -> Evaluation:
        model, most = self.model, self.max_length
        return evaluated(self, options, lambda text, tick: tell_both_ways(model, text.ids[1:], most, 8, tick))


def framed(ids: Ids, starts: Ids, context: int, start: int, end: int) -> Padded:
    """[start] ids [end], of the ids from each of `starts` on; the end of the text is as long as it is."""
    at, starts = np.arange(context), starts[:, None]
    last = np.minimum(context - MARKS, len(ids) - starts) + 1
    tokens = ids[(starts + at - 1).clip(0, len(ids) - 1)].astype(np.int64)  # (B, T)
    tokens[:, 0] = start
    tokens[at == last] = end
    tokens[at > last] = PADDING
    return Padded(torch.from_numpy(tokens), torch.from_numpy(last[:, 0] + 1))


@torch.no_grad()
def tell_both_ways(model: Elmo, ids: Ids, context: int, rows: int, tick: Tick = ignore) -> dict[str, float]:
    """Nats for each token, in windows side by side: told from those before it, from those after it, and their mean."""
    starts, lost = np.arange(0, len(ids), context - MARKS), np.zeros(2)
    for at in range(0, len(starts), rows):
        tick(int(starts[at]))
        texts = framed(ids, starts[at : at + rows], context, model.start, model.end)
        forward, backward, _ = _told(model, texts, Site())
        lost += [float(forward), float(backward)]
    forward_nats, backward_nats = (lost / len(ids)).tolist()
    return {"loss": (forward_nats + backward_nats) / 2, "forward": forward_nats, "backward": backward_nats}


def _told(model: Elmo, texts: Padded, site: Site) -> tuple[Tensor, Tensor, int]:
    """Nats lost on all tokens between the marks, forward and backward, and how many these are."""
    forth, back = model.both(texts, site)
    between = torch.arange(2, texts.tokens.shape[1])[None] < texts.lengths[:, None]  # (B, T - 2)
    wanted = texts.tokens[:, 1:-1][between]
    forward, backward = (cross_entropy(model.head, x[between], wanted) for x in (forth[:, :-2], back[:, 2:]))
    return forward, backward, len(wanted)
