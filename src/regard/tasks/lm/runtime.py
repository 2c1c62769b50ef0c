"""A language model, ready to go on with texts and to say how likely they are."""

import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.decode.config import Beam, Hypothesis, Search
from regard.engine.engine import Rows
from regard.errors import UserError
from regard.look.look import Look
from regard.models.config import GptConfig
from regard.tasks.lm.config import GenerateOptions
from regard.tasks.lm.prompt import Choice, Examples, Prompter
from regard.tasks.options import Texts, listed
from regard.tasks.runnable import Evaluation, Prediction, Predictions, Runnable, Tick, ids_of, ignore
from regard.tasks.running_spec import TextEvaluation

if TYPE_CHECKING:
    from torch import Tensor


class Generator(Runnable):
    """A language model: `model("Once upon a time")` is what follows."""

    def __call__(self, texts: str | Texts, **options: Any) -> str | list[str]:
        """What follows a text, or each: `model(texts, temperature=0.8, stop=["\\n"])`."""
        asked = self.options(options)
        found = self.tell(listed(texts), stop=asked.stop, search=asked.search(self.search))
        said = [self.text(hypotheses[0], asked.stop) for hypotheses in found]
        return said[0] if isinstance(texts, str) else said

    def generate(self, prompt: str, *, stream: bool = False, **options: Any) -> str | Iterator[str]:
        """What follows a prompt; with `stream`, piece by piece as it grows."""
        if not stream:
            return "".join(self.generate(prompt, stream=True, **options))
        pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
        asked = self.options({**options, "prompt": prompt})

        def work() -> None:
            try:
                self._grow(asked, pieces.put)
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        threading.Thread(target=work, daemon=True).start()
        return _until_none(pieces)

    def stream(self, options: GenerateOptions, put: Callable[[str], None]) -> None:
        put(options.prompt or "")
        self._grow(options, put)
        put("\n")

    def _grow(self, options: GenerateOptions, put: Callable[[str], None]) -> None:
        search, stream = options.search(self.search), Stream(put, options.stop)
        heard = None if isinstance(search, Beam) else stream  # a beam changes its mind
        ((best, *_),) = self.tell([options.prompt or ""], stop=options.stop, heard=heard, search=search)
        stream.end(self.text(best, options.stop))

    def predict(self, texts: Texts, options: GenerateOptions, *, first: int = 1, tick: Tick = ignore) -> Predictions:
        if options.score:
            return [_likelihood(*each) for each in self.score(texts, tick)]
        prompter = Prompter.of(self, options) if options.prompted else None
        if prompter is not None and options.labels is not None:
            chosen = prompter.choose(texts, first=first, tick=tick)
            return [_labels(choices, options.num_best) for choices in chosen]
        prompts, stop = (texts, options.stop) if prompter is None else (prompter.prompts(texts, first), prompter.stop)
        spell = partial(self.text, stop=stop) if prompter is None else prompter.said
        filled = [prompt for prompt in prompts if prompt.strip()]  # blank in, blank out
        search = options.search(self.search)
        outputs = iter(self.tell(filled, stop=stop, tick=tick, search=search) if filled else [])
        return [_outputs(next(outputs) if prompt.strip() else [], spell) for prompt in prompts]

    def about(self, options: GenerateOptions) -> str:
        return "" if options.score or options.labels is not None else f"engine: {self.engine.about}"

    def evaluated(self, options: TextEvaluation) -> Evaluation:
        from regard.tasks.lm.task import perplexities
        from regard.tasks.running_text import evaluated

        return evaluated(self, options, lambda text, tick: perplexities(self.model, text, self.max_length, tick))

    def served(self) -> dict[str, Any]:
        self.prompts(["a"])
        return {"engine": self.engine.about, "tokens": self.search.max_length}

    def attend(self, text: str, target: str | None = None, *, shown: int | None = None) -> Look:
        from regard.engine.explain import explain

        (prompt,) = self.prompts([text])
        said = self.tell([text])[0][0].tokens if target is None else self._ids([target])[0]
        if len(prompt) == 1 and not said:
            said = [max(0, self.end)]
        return self.look(explain(self.model, [[]], [[*prompt[1:], *said]], shown=shown, first=prompt[0])[0])

    def room(self, search: Search | None = None) -> int | None:
        """Tokens of a prompt at most, before so long an output; None of recurrent models, which read on and on."""
        if not isinstance(self.loaded.config, GptConfig):
            return None
        longest, output = self.loaded.config.position.max_length, (search or self.search).max_length
        return self.max_length if longest is None else max(1, longest - min(output, longest // 2))

    def prompts(self, texts: Texts, search: Search | None = None) -> list[list[int]]:
        """As the model reads them; of one that is longer than what it learned from, or leaves no room, the end."""
        room = self.room(search) or 0
        rows = [self.tokenizer.prompt(ids, self.start)[-room:] for ids in self._ids(texts)]
        return [row if row[0] >= 0 else self.led([]) for row in rows]

    def led(self, ids: Sequence[int]) -> list[int]:
        """After the start mark."""
        if self.start < 0:
            raise UserError("this model has no start mark to begin with; give it a text, or a template with one")
        return [self.start, *ids]

    def tell(
        self,
        texts: Texts,
        *,
        stop: Texts = (),
        tick: Tick = ignore,
        heard: Callable[[str], None] | None = None,
        search: Search | None = None,
    ) -> list[list[Hypothesis]]:
        """For each prompt what follows it, best first; `heard` is told what follows a single one while it grows."""
        stop = listed(stop)
        if not all(stop):
            raise UserError("an empty string stops every output at once; give some text")
        reach = max((len(text.encode()) for text in stop), default=0)  # a token spells a byte at least

        def listen(ids: list[int]) -> bool:
            if heard is not None:
                heard(before(self.spell(ids), stop))
            return any(text in self.spell(ids[-reach:]) for text in stop)

        listens = listen if stop or heard else None
        return self.engine.decode(self.prompts(texts, search), search or self.search, tick=tick, heard=listens)

    def answer(self, texts: Texts, *, examples: Examples = (), template: str | None = None) -> list[str]:
        """What it says to each text, up to the line's end, after examples of (input, answer)."""
        return Prompter(self, examples, template).answer(listed(texts))

    def choose(
        self,
        texts: Texts,
        labels: Texts,
        *,
        examples: Examples = (),
        template: str | None = None,
        calibrated: bool = True,
    ) -> list[list[Choice]]:
        """For each text the labels, likeliest first, each with its probability as the answer to it."""
        return Prompter(self, examples, template, labels).choose(listed(texts), calibrated=calibrated)

    def text(self, hypothesis: Hypothesis, stop: Texts = ()) -> str:
        """What follows the prompt, up to a string that stops it."""
        return before(self.spell(hypothesis.tokens), stop)

    def spell(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode([i for i in ids if i != self.end], spaced=False)

    def logits(self, ids: Any) -> "Tensor":
        """Of the word after each of ids: (B, T, V), or (T, V) of one row."""
        import torch

        rows, alone = ids_of(ids, self.model.config.vocabulary)
        with torch.no_grad():
            logits: Tensor = self.model(rows.tokens)
        return logits[0] if alone else logits

    def score(self, texts: Texts, tick: Tick = ignore) -> list[tuple[float, int]]:
        """The log-probability of each text, and of how many tokens; each is told from all before it that fit."""
        from regard.tasks.lm.task import nats

        rows = [ids if self.start < 0 else [self.start, *ids] for ids in self._ids(texts)]
        found = [(0.0, 0)] * len(rows)
        filled = [i for i, row in enumerate(rows) if 1 < len(row) <= self.max_length]
        for done, (i, own) in enumerate(self.log_probs([rows[i] for i in filled]), 1):
            found[filled[i]] = (float(own.sum()), len(own))
            tick(done)
        for i, row in enumerate(rows):
            if len(row) > self.max_length:
                nats_ = nats(self.model, np.array(row), self.max_length - 1, rows=4, tick=lambda _: tick(i))  # noqa: B023
                found[i] = (-nats_, len(row) - 1)
        return found

    def log_probs(self, rows: Rows) -> "Iterator[tuple[int, Tensor]]":
        """The number of each row, the longest first, and the log-probabilities of its tokens after the first."""
        import torch

        from regard.nn.loss import lost

        for members, batch in self.batches(rows):
            with torch.no_grad():
                x, _ = self.model.advance(batch.tokens[:, :-1], self.model.nothing_yet(len(batch)))
            real = torch.arange(x.shape[1])[None] < batch.lengths[:, None] - 1
            own = -lost(self.model.head, x[real], batch.tokens[:, 1:][real]).double()
            yield from zip(members, own.split((batch.lengths - 1).tolist()), strict=True)

    def _ids(self, texts: Texts) -> list[list[int]]:
        return self.tokenizer.encode(listed(texts), spaced=False)


def before(said: str, stop: Texts) -> str:
    """A text up to the first of these strings."""
    return said[: min((said.index(text) for text in listed(stop) if text in said), default=len(said))]


def _likelihood(log_prob: float, tokens: int) -> Prediction:
    perplexity = math.exp(min(-log_prob / max(tokens, 1), 700))
    return Prediction(f"{log_prob:.4f}\t{tokens}\t{perplexity:.4f}", {"log_prob": log_prob, "tokens": tokens})


def _labels(choices: Sequence[Choice], num_best: int) -> Prediction:
    line = "\t".join(f"{choice.label}\t{choice.probability:.4f}" for choice in choices[:num_best])
    return Prediction(line, {"outputs": [choice._asdict() for choice in choices]})


def _outputs(hypotheses: Sequence[Hypothesis], spell: Callable[[Hypothesis], str]) -> Prediction:
    outputs = [{"text": spell(h), "log_prob": h.log_prob, "score": h.score} for h in hypotheses]
    line = " ".join(str(outputs[0]["text"]).split("\n")) if outputs else ""
    return Prediction(line, {"outputs": outputs})


def _until_none(pieces: queue.SimpleQueue[str | BaseException | None]) -> Iterator[str]:
    while (piece := pieces.get()) is not None:
        if isinstance(piece, BaseException):
            raise piece
        yield piece


class Stream:
    """Writes a text as it grows; what may yet change, part of a character or of a string that stops, waits."""

    def __init__(self, put: Callable[[str], None], stop: Texts = ()) -> None:
        self.put, self.stop, self.done = put, stop, 0

    def __call__(self, said: str) -> None:
        sure = len(said.rstrip("\ufffd"))  # which stands for a part of a character
        for text in self.stop:
            held = next((n for n in range(len(text) - 1, 0, -1) if said.endswith(text[:n])), 0)
            sure = min(sure, len(said) - held)
        self.end(said[:sure])

    def end(self, said: str) -> None:
        if len(said) > self.done:
            self.put(said[self.done :])
            self.done = len(said)
