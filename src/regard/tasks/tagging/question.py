"""How each word of a sentence is given a tag."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import TAGS, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Row, Unit
from regard.tasks.labelled.question import Answer, Numbers, Outputs, Question, labels_of


class Tagging(Question):
    """A tag for each word, from the vector of its first piece."""

    form, paired = TAGS, False

    def settings(self, train: Sequence[Example]) -> dict[str, Any]:
        return {"labels": labels_of({tag for example in train for tag in example.answer})}

    def example(self, line: str, number: int, pairs: bool) -> Example:
        return Example(tuple(line.split()), None, number)

    def units(self, layout: Layout, item: int, example: Example) -> Iterator[Unit]:
        """As many words as fit, a row after the other."""
        room = layout.max_length - 2
        pieces = [ids[:room] or [layout.last] for ids in layout.tokenizer.encode(example.texts)]
        tags = example.answer or [None] * len(pieces)
        first = 0
        while first < len(pieces):
            ends = np.cumsum([len(ids) for ids in pieces[first:]])
            count = int((ends <= room).sum())
            ids, _ = layout.frame([i for row in pieces[first : first + count] for i in row])
            wanted = [layout.numbers.get(tag, -1) for tag in tags[first : first + count]]
            yield [Row(ids, len(ids), item, wanted, 1 + np.concatenate(([0], ends[: count - 1])))]
            first += count

    def loss(self, logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
        tags = torch.tensor([tag for row in batch.rows for tag in row.wanted])
        known = tags >= 0
        of_words = logits[batch.words][known]
        total = F.cross_entropy(of_words, tags[known], reduction="sum", label_smoothing=smoothing)
        return total, float(max(1, int(known.sum())))

    def outputs(self, logits: Tensor, batch: Batch) -> list[Numbers]:
        sizes = [len(row.spots) for row in batch.rows]
        return [x.numpy() for x in logits[batch.words].double().log_softmax(-1).split(sizes)]

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        if not outputs:
            return Answer((), ())
        of_words = np.concatenate([x for x, _ in outputs])
        tags = tuple(config.labels[i] for i in of_words.argmax(-1))
        return Answer(tags, tuple(np.exp(of_words.max(-1)).tolist()))


QUESTION = Tagging()
