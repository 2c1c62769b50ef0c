"""How a text, or a pair of texts, is given a label."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import LABELS, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Unit
from regard.tasks.labelled.question import Answer, Outputs, Question, first_answers, labels_of, ranked


class Classification(Question):
    """The likeliest of some labels."""

    form, of_text = LABELS, False

    def settings(self, train: Sequence[Example]) -> dict[str, Any]:
        return {"labels": labels_of({example.answer for example in train})}

    def units(self, layout: Layout, item: int, example: Example) -> Iterator[Unit]:
        label = example.answer
        yield layout.texts(item, example, None if label is None else layout.numbers.get(label, -1))

    def loss(self, logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
        labels = torch.tensor(first_answers(batch))
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing), float(len(labels))

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        return ranked(config.labels, outputs[0][0], lambda best: config.labels[best])


QUESTION = Classification()
