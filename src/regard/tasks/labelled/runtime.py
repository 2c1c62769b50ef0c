"""A reader, ready to answer: labels with their probabilities, numbers, choices, tags, words of a document."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data.axes import Axis
from regard.data.config import ExamplesConfig
from regard.data.examples import CORPORA, Example, read_examples
from regard.errors import UserError
from regard.files import write
from regard.metrics.labels import label_scores
from regard.progress import Progress, warn
from regard.shapes import Row
from regard.tasks.labelled.config import AnswerOptions, ExamplesEvaluation
from regard.tasks.labelled.layout import Batch, Layout
from regard.tasks.labelled.question import Answer, metrics_of
from regard.tasks.labelled.task import answers
from regard.tasks.options import Texts, listed
from regard.tasks.runnable import TOGETHER, Evaluation, Prediction, Predictions, Runnable, Tick, ignore

MARKS = ("[start]", "[between]", "[extract]")  # of decoders, which no tokenizer knows


class Answerer(Runnable):
    """A model that answers: `model("a fine film")`, or `model(["a cat\\ta dog", ...])`, a tab between parts."""

    def __call__(self, texts: str | Texts) -> Answer | list[Answer]:
        found = self.classify(texts)
        return found[0] if isinstance(texts, str) else found

    def classify(self, texts: str | Texts) -> list[Answer]:
        """The answer to each text, with its probability and all others."""
        return self.answer([self.example(line, number) for number, line in enumerate(listed(texts), 1)])

    def predict(self, texts: Texts, options: AnswerOptions, *, first: int = 1, tick: Tick = ignore) -> Predictions:
        numbers = [i for i, text in enumerate(texts) if text.strip()]  # blank in, blank out
        before = self.layout.cut
        found = self.answer([self.example(texts[i], first + i) for i in numbers], tick)
        if cut := self.layout.cut - before:
            warn(f"{cut:,} of the lines are longer than {self.max_length} tokens; the rest of them is not read")
        answers = {i: Prediction(a.line(options.num_best), a.data()) for i, a in zip(numbers, found, strict=True)}
        return [answers.get(i, Prediction("", {})) for i in range(len(texts))]

    def evaluated(self, options: ExamplesEvaluation) -> Evaluation:
        """Metrics on a file of labelled examples, or on a corpus that is known by name."""
        data = str(options.data)
        named = data in CORPORA and not Path(data).exists()
        front = self.layout.input.front
        corpus = ExamplesConfig(corpus=data, input=front) if named else ExamplesConfig(file=data, input=front)
        examples = read_examples([corpus], self.layout.question.form)
        single = not self.layout.config.pairs and self.layout.question.paired is None
        if single and (two := next((e for e in examples if len(e.texts) > 1), None)):
            raise UserError(f"{data}, line {two.line}: holds two texts, and this model was trained on one at a time")
        with Progress(len(examples), "evaluate") as progress:
            answers, labels = self.predictions(examples, progress.update)
        scores = label_scores(metrics_of(self.loaded.task), answers, labels)
        if options.output is not None:
            rows = (" ".join(each) if isinstance(each, tuple) else " ".join(str(each).split()) for each in answers)
            write(options.output, "".join(f"{row}\n" for row in rows).encode())
        shown = [f"{name:15} {x:.4f}" if abs(x) <= 1 else f"{name:15} {x:.2f}" for name, x in scores.items()]
        return Evaluation({"examples": len(examples), **scores}, [f"{len(examples):,} examples", *shown])

    def served(self) -> dict[str, Any]:
        least, _, reads = self.layout.question.reads(self.layout.config.pairs)
        return {**super().served(), "parts": least, "reads": reads}

    def axis(self, source: Any) -> Axis:
        own = self.tokenizers.source
        axis = own.axis(source if own.front is not None else [i for i in source if i < own.vocabulary])
        for place, i in enumerate(source if own.front is None else ()):
            if i >= own.vocabulary:
                axis.labels.insert(place, MARKS[i - own.vocabulary])
                axis.groups.insert(place, -1 - place)
        return axis

    @cached_property
    def layout(self) -> Layout:
        config: Any = self.loaded.config
        return Layout(self.tokenizers.source, config, self.max_length)

    def example(self, line: str, number: int = 1) -> Example:
        """What a line asks; raises UserError where it does not hold what it should."""
        return self.layout.question.example(line, number, self.layout.config.pairs)

    def answer(self, examples: Sequence[Example], tick: Tick = ignore) -> list[Answer]:
        tokens = TOGETHER if self.batch_size is None else self.batch_size * self.max_length
        return answers(self.model, self.layout, examples, tokens, tick)

    def predictions(self, examples: Sequence[Example], tick: Tick = ignore) -> tuple[list[Any], list[Any]]:
        """What is said of labelled examples, and what was wanted."""
        return [each.said for each in self.answer(examples, tick)], list(map(self.layout.question.wanted, examples))

    def reading(self, text: str) -> tuple[Callable[[Any, Any], Any], Row]:
        if not text.strip():
            raise UserError("the text is blank; give one to look at")
        (row, *_) = next(self.layout.units([self.example(text)]))  # of choices the first
        return lambda rows, at: self.model.see(Batch.of([[replace(row, ids=rows[0])]]).items, at), row.ids
