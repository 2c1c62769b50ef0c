"""`regard run` and `regard evaluate` of readers: labels, numbers, choices, tags, and words of a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from regard.cli.lines import Tick
from regard.data.config import ExamplesConfig, LabelTask
from regard.data.examples import CORPORA, read_examples
from regard.errors import UserError
from regard.files import write
from regard.metrics.labels import label_scores
from regard.progress import Progress, warn
from regard.tasks.labelled.runtime import Answerer
from regard.tasks.labelled.task import Answer


def answered(model: Answerer, wanted: Any, texts: Sequence[str], done: int, tick: Tick) -> list[str]:
    """Of each line: the best labels with their probabilities; a number; the number of a choice, from 1; tags; or words
    of the document, where they stand, and how probable they are."""
    numbers = [number for number, text in enumerate(texts, done + 1) if text.strip()]  # blank in, blank out
    examples = [model.example(texts[number - done - 1], number) for number in numbers]
    before = model.layout.cut
    found = model.answer(examples, tick)
    if cut := model.layout.cut - before:
        warn(f"{cut:,} of the lines are longer than {model.max_length} tokens; the rest of them is not read")
    told = [_as_json(model, answer) if wanted.as_json else _as_text(answer, wanted.num_best) for answer in found]
    made = dict(zip(numbers, told, strict=True))
    lines = [made.get(number, {} if wanted.as_json else "") for number in range(done + 1, done + 1 + len(texts))]
    if not wanted.as_json:
        return [str(line) for line in lines]
    return [
        json.dumps({"input": t, **cast(Any, line)}, ensure_ascii=False) for t, line in zip(texts, lines, strict=True)
    ]


def _as_text(answer: Answer, num_best: int) -> str:
    if answer.place is not None:
        words = " ".join(str(answer.said).split())
        return f"{words}\t{answer.place[0]}-{answer.place[1]}\t{answer.probability:.4f}"
    if isinstance(answer.said, float):
        return f"{answer.said:.4f}"
    if isinstance(answer.said, tuple):
        return " ".join(answer.said)
    if isinstance(answer.said, int):
        return f"{answer.said + 1}\t{answer.probability:.4f}"
    return "\t".join(f"{' '.join(label.split())}\t{p:.4f}" for label, p in answer.others[:num_best])


def _as_json(model: Answerer, answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {"answer": answer.said + 1 if model.question == "choice" else answer.said}
    if answer.probability is not None:
        told["probability"] = answer.probability
    if answer.others:
        told["all"] = [{"label": label, "probability": p} for label, p in answer.others]
    if answer.place is not None:
        told |= {"start": answer.place[0], "end": answer.place[1]}
    return told


def evaluate_examples(model: Answerer, data: str, output: Path | None, as_json: bool) -> None:
    """Metrics on a file of labelled examples, or on a corpus that is known by name."""
    named = data in CORPORA and not Path(data).exists()
    config = ExamplesConfig(corpus=data) if named else ExamplesConfig(file=data)
    examples = read_examples([config], cast(LabelTask, model.question))
    single = not model.layout.config.pairs and model.question in ("classification", "regression")
    if single and (two := next((e for e in examples if len(e.texts) > 1), None)):
        raise UserError(f"{data}, line {two.line}: holds two texts, and this model was trained on one at a time")
    with Progress(len(examples), "evaluate") as progress:
        said, wanted = model.predictions(examples, lambda done: progress.update(done))
    scores = label_scores(model.question, said, wanted)
    if output is not None:
        lines = (" ".join(each) if isinstance(each, tuple) else " ".join(str(each).split()) for each in said)
        write(output, "".join(f"{line}\n" for line in lines).encode())
    if as_json:
        print(json.dumps({"examples": len(examples), **scores}))
    else:
        print(f"{len(examples):,} examples")
        for name, value in scores.items():
            print(f"{name:15} {value:.4f}" if abs(value) <= 1 else f"{name:15} {value:.2f}")
