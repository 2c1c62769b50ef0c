"""How a question is answered by words of a document."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.data.examples import QUESTIONS, Example
from regard.models.config import ReaderConfig
from regard.tasks.labelled.layout import Batch, Layout, Row, Unit
from regard.tasks.labelled.question import Answer, Numbers, Outputs, Question

LONGEST_ANSWER = 30  # tokens, as BERT searches spans
NEVER = -1e4


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


QUESTION = Spans()
