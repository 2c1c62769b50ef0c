"""What a language model says to lines: what follows, an answer after examples, or how likely they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from regard.data.config import PairsConfig
from regard.data.text import pairs
from regard.errors import UserError
from regard.progress import warn
from regard.tasks.lm.config import GenerateOptions
from regard.tasks.lm.prompt import Prompter
from regard.tasks.runnable import Prediction

if TYPE_CHECKING:
    from regard.decode.config import Hypothesis
    from regard.tasks.lm.runtime import Generator

Tick = Callable[[int], None]


def predict(
    model: Generator, texts: Sequence[str], options: GenerateOptions, first: int, tick: Tick
) -> list[Prediction]:
    if options.score:
        return [_likelihood(*each) for each in model.score(texts)]
    prompter = _prompter(model, options) if options.prompted else None
    if prompter is not None and options.labels is not None:
        found = prompter.choose(texts, first=first, tick=tick)
        return [_labels(choices, options.num_best) for choices in found]
    prompts, stop = (texts, options.stop) if prompter is None else (prompter.prompts(texts, first), prompter.stop)
    spell = partial(model.text, stop=stop) if prompter is None else prompter.said
    filled = [prompt for prompt in prompts if prompt.strip()]  # blank in, blank out
    search = options.search(model.search)
    outputs = iter(model.tell(filled, stop=stop, tick=tick, search=search) if filled else [])
    return [_outputs(next(outputs) if prompt.strip() else [], spell) for prompt in prompts]


def _likelihood(log_prob: float, tokens: int) -> Prediction:
    perplexity = math.exp(min(-log_prob / max(tokens, 1), 700))
    return Prediction(f"{log_prob:.4f}\t{tokens}\t{perplexity:.4f}", {"log_prob": log_prob, "tokens": tokens})


def _labels(choices: Sequence[Any], num_best: int) -> Prediction:
    line = "\t".join(f"{choice.label}\t{choice.probability:.4f}" for choice in choices[:num_best])
    return Prediction(line, {"outputs": [choice._asdict() for choice in choices]})


def _outputs(hypotheses: Sequence[Hypothesis], spell: Callable[[Hypothesis], str]) -> Prediction:
    outputs = [{"text": spell(h), "log_prob": h.log_prob, "score": h.score} for h in hypotheses]
    line = " ".join(str(outputs[0]["text"]).split("\n")) if outputs else ""
    return Prediction(line, {"outputs": outputs})


def _prompter(model: Generator, options: GenerateOptions) -> Prompter:
    """What puts the examples before each line."""
    found = pairs(PairsConfig(pairs=str(options.examples))) if options.examples else ()
    shots = [(pair.source, pair.target) for pair in found]
    labels = None if options.labels is None else [label.strip() for label in options.labels.split(",")]
    if labels == ["examples"]:
        if not shots:
            raise UserError("labels: examples are the answers in a file; give it as examples")
        labels = list(dict.fromkeys(answer for _, answer in shots))
    template = None if options.template is None else options.template.replace("\\n", "\n")
    prompter = Prompter(model, shots, template, labels, warn=warn)
    prompter.stop += options.stop
    return prompter
