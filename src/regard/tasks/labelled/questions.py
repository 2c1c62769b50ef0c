"""The questions of all tasks of labelled examples: how one text or two are given a label or a number, a context one of
several continuations, each word of a sentence a tag, and a question the words of a document that answer it."""

from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import CHOICES, LABELS, NUMBERS, QUESTIONS, TAGS, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Row, Unit
from regard.tasks.labelled.question import Answer, Numbers, Outputs, Question, first_answers, labels_of, ranked

LONGEST_ANSWER = 30  # tokens, as BERT searches spans
NEVER = -1e4


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


class Spans(Question):
    """The stretch of a document that most likely begins and ends an answer [Devlin+ 2019, section 4.2]."""

    form, paired = QUESTIONS, True

    def reads(self, pairs: bool) -> tuple[int, int, str]:
        return 2, 2, "a document and a question"

    def units(self, layout: Layout, item: int, example: Example) -> Iterator[Unit]:
        """The question before every window of the document, which overlap by half; rows in which no answer stands come
        with None."""
        document, question = example.texts
        ((ids, spans),) = layout.tokenizer.places([document])
        asked, most = layout.tokenizer.encode([question])[0], layout.max_length // 3
        layout.cut += len(asked) > most
        asked = asked[:most]
        room = layout.max_length - 3 - len(asked)
        places = np.array(spans, np.int64).reshape(-1, 2)
        step = max(1, room // 2)
        for at in range(0, max(1, len(ids) - room + step), step):
            row, second = layout.frame(asked, ids[at : at + room])
            here = places[at : at + room]
            yield [Row(row, second, item, _stands(example, here, second), here)]

    def loss(self, logits: Tensor, batch: Batch, smoothing: float) -> tuple[Tensor, float]:
        logits = logits.masked_fill(~batch.document[..., None], NEVER).transpose(1, 2)  # -> (B, 2, T)
        ends = torch.tensor([row.wanted for row in batch.rows])
        return F.cross_entropy(logits.flatten(0, 1), ends.flatten(), reduction="sum") / 2, float(len(ends))

    def outputs(self, logits: Tensor, batch: Batch) -> list[Numbers]:
        return [x[row.second :][: len(row.spots)].double().numpy() for x, row in zip(logits, batch.rows, strict=True)]

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        return best_span(example.texts[0], [(x, unit[0].spots) for x, unit in outputs])

    def wanted(self, example: Example) -> Any:
        return [text for _, text in example.answer]


def _stands(example: Example, places: NDArray[np.int64], second: int) -> tuple[int, int] | None:
    """The first and last token of the first answer that is whole among these places."""
    for at, text in example.answer or ():
        start, text = at + len(text) - len(text.lstrip()), text.strip()
        inside = ((places[:, 1] > start) & (places[:, 0] < start + len(text))).nonzero()[0]
        if len(inside) and places[inside[0], 0] <= start and places[inside[-1], 1] >= start + len(text):
            return second + int(inside[0]), second + int(inside[-1])
    return None


def best_span(document: str, windows: Sequence[tuple[Numbers, NDArray[np.int64]]]) -> Answer:
    """The stretch of at most 30 tokens that most likely begins and ends an answer, over all windows."""
    windows = [(x, places) for x, places in windows if len(places)]
    if not windows:
        return Answer("", 0.0, (), (0, 0))
    every = np.concatenate([x for x, _ in windows])
    whole = np.log(np.exp(every - every.max(0)).sum(0)) + every.max(0)
    best = (-np.inf, 0, 0)
    for x, places in windows:
        begins, ends = (x - whole).T
        padded = np.concatenate((ends, np.full(LONGEST_ANSWER, -np.inf)))
        scores = begins[:, None] + np.lib.stride_tricks.sliding_window_view(padded, LONGEST_ANSWER)[: len(begins)]
        first, more = np.unravel_index(int(scores.argmax()), scores.shape)
        span = (float(scores[first, more]), int(places[first, 0]), int(places[first + more, 1]))
        best = max(best, span, key=lambda each: each[0])
    score, start, end = best
    return Answer(document[start:end], float(np.exp(score)), (), (start, end))


BY_TASK: dict[str, Question] = {
    "classification": Classification(),
    "regression": Regression(),
    "choice": Choice(),
    "tagging": Tagging(),
    "spans": Spans(),
}
