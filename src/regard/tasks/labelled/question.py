"""Question: what a task of labelled examples has of its own, from its files to its answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Format
from regard.errors import UserError
from regard.models.config import ReaderConfig
from regard.tasks.registry import TASKS

if TYPE_CHECKING:
    from regard.tasks.labelled.layout import Batch, Layout, Unit

Numbers = NDArray[np.float64]
Outputs = list[tuple[Numbers, "Unit"]]  # of an example's units
MOST_LABELS = 1000


@dataclass(frozen=True)
class Answer:
    """The answer to an example, how probable it is, and what else was possible."""

    said: Any
    """A label, a number, the number of a choice, tags, or words of the document."""
    probability: Any = None
    """Of a number there is none; of tags, one for each."""
    others: tuple[tuple[str, float], ...] = ()
    """Every label or choice, the best first."""
    place: tuple[int, int] | None = None
    """Of words in the document: from where to where, in characters."""

    def line(self, num_best: int = 1) -> str:
        """The best labels with their probabilities; a number; the number of a choice, from 1; tags; or words of the
        document, where they stand, and how probable they are."""
        if self.place is not None:
            words = " ".join(str(self.said).split())
            return f"{words}\t{self.place[0]}-{self.place[1]}\t{self.probability:.4f}"
        if isinstance(self.said, float):
            return f"{self.said:.4f}"
        if isinstance(self.said, tuple):
            return " ".join(self.said)
        if isinstance(self.said, int):
            return f"{self.said + 1}\t{self.probability:.4f}"
        return "\t".join(f"{' '.join(label.split())}\t{p:.4f}" for label, p in self.others[:num_best])

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        data = {"answer": self.said + 1 if isinstance(self.said, int) else self.said}  # choices count from 1
        if self.probability is not None:
            data["probability"] = self.probability
        if self.others:
            data["all"] = [{"label": label, "probability": p} for label, p in self.others]
        if self.place is not None:
            data |= {"start": self.place[0], "end": self.place[1]}
        return data


class Question:
    """One text, or two, and an answer to it."""

    form: Format
    paired: bool | None = None
    """Whether each row has two texts; None: as the data have."""
    of_text = True
    """Whether examples have to be text."""

    def settings(self, train: Sequence[Example]) -> Mapping[str, Any]:
        """Of the model, as the examples to train on have them."""
        return {}

    def pairs(self, train: Sequence[Example]) -> bool:
        """Whether a model reads two texts at once."""
        return any(len(example.texts) == 2 for example in train) if self.paired is None else self.paired

    def reads(self, pairs: bool) -> tuple[int, int, str]:
        """Texts on a line of `run`, with a tab between them, at least and at most, and what they are."""
        return (2, 2, "two texts") if pairs else (1, 1, "a text")

    def example(self, line: str, number: int, pairs: bool) -> Example:
        """What a line asks; raises UserError where it does not hold what it should."""
        texts, (least, most, what) = tuple(line.split("\t")), self.reads(pairs)
        if not least <= len(texts) <= most:
            raise UserError(f"line {number} holds {len(texts)} parts; give {what}, with a tab between them")
        return Example(texts, None, number)

    def units(self, layout: "Layout", item: int, example: Example) -> "Iterator[Unit]":
        """Rows of ids, as they are read together."""
        raise NotImplementedError  # abstract

    def loss(self, logits: Tensor, batch: "Batch", smoothing: float) -> tuple[Tensor, float]:
        """The sum over what is answered, and how much that is."""
        raise NotImplementedError  # abstract

    def outputs(self, logits: Tensor, batch: "Batch") -> list[Numbers]:
        """Of each unit; by default the log-probabilities of its labels."""
        return list(logits.double().log_softmax(-1).numpy())

    def answer(self, config: ReaderConfig, example: Example, outputs: Outputs) -> Answer:
        raise NotImplementedError  # abstract

    def wanted(self, example: Example) -> Any:
        """The answer of a labelled example, as metrics take it."""
        return example.answer


def question_of(task: str) -> Question:
    """Of a task of labelled examples."""
    from regard.tasks.labelled.questions import BY_TASK  # here, because they are made of what stands above

    if task not in BY_TASK:
        raise UserError(f"question {task!r:.60} is of no task of labelled examples; train the model again")
    return BY_TASK[task]


def metrics_of(task: str) -> tuple[str, ...]:
    """The first says which model is best."""
    recipe: Any = TASKS[task].recipe
    return tuple(recipe.metrics)


def labels_of(labels: set[str]) -> tuple[str, ...]:
    """In order, if they can be told apart."""
    if len(labels) > MOST_LABELS or len(labels) < 2:
        few = f"{len(labels)} different labels, where 2 to {MOST_LABELS} can be told apart"
        raise UserError(f"the examples to train on have {few}; for numbers use task: regression")
    return tuple(sorted(labels))


def ranked(names: Sequence[str], log_probs: Numbers, said: Callable[[int], Any]) -> Answer:
    """The likeliest of some names."""
    order = np.argsort(-log_probs[: len(names)], kind="stable").tolist()
    others = tuple((names[i], float(np.exp(log_probs[i]))) for i in order)
    return Answer(said(order[0]), others[0][1], others)


def first_answers(batch: "Batch") -> list[Any]:
    """Of each unit: its rows have the same."""
    return [row.wanted for row, place in zip(batch.rows, batch.within.tolist(), strict=True) if not place]
