"""How a text, or a pair of texts, is given a number."""

from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import NUMBERS, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Unit
from regard.tasks.labelled.question import Answer, Numbers, Outputs, Question, first_answers


class Regression(Question):
    """A number, which the model gives as its distance from the mean, in standard deviations."""

    form, of_text = NUMBERS, False

    def settings(self, train: Sequence[Example]) -> dict[str, Any]:
        numbers = [example.answer for example in train]
        return {"center": fmean(numbers), "spread": pstdev(numbers) or 1.0}

    def units(self, layout: Layout, item: int, example: Example) -> Iterator[Unit]:
        config, number = layout.config, example.answer
        yield layout.texts(item, example, None if number is None else (number - config.center) / config.spread)

    def loss(self, logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
        numbers = first_answers(batch)
        return F.mse_loss(logits[:, 0], logits.new_tensor(numbers), reduction="sum"), float(len(numbers))

    def outputs(self, logits: Tensor, batch: Batch) -> list[Numbers]:
        return list(logits.numpy())

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        return Answer(float(outputs[0][0][0]) * config.spread + config.center)


QUESTION = Regression()
