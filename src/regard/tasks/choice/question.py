"""How a context is given one of several continuations."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import CHOICES, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Unit
from regard.tasks.labelled.question import Answer, Numbers, Outputs, Question, first_answers, ranked


class Choice(Question):
    """A row for each choice after its context, of which the likeliest is taken."""

    form, paired = CHOICES, True

    def reads(self, pairs: bool) -> tuple[int, int, str]:
        return 3, 1 << 20, "a context and two choices or more"

    def units(self, layout: Layout, item: int, example: Example) -> Iterator[Unit]:
        context, *choices = layout.tokenizer.encode(example.texts)
        yield [layout.row(item, example.answer, context, choice) for choice in choices]

    def loss(self, logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
        """Without smoothing: choices that are not there cannot have a share."""
        choices = torch.tensor(first_answers(batch))
        return F.cross_entropy(_by_unit(logits, batch), choices, reduction="sum"), float(len(choices))

    def outputs(self, logits: Tensor, batch: Batch) -> list[Numbers]:
        return super().outputs(_by_unit(logits, batch), batch)

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        return ranked(example.texts[1:], outputs[0][0], lambda best: best)


def _by_unit(logits: Tensor, batch: Batch) -> Tensor:
    """A row for each unit: what its choices are worth, and nothing where it has fewer than others."""
    table = logits.new_full((int(batch.groups[-1]) + 1, int(batch.within.max()) + 1), -torch.inf)
    return table.index_put((batch.groups, batch.within), logits[:, 0])


QUESTION = Choice()
