"""Prompts made of examples: a language model answers as they do, or tells which label is likeliest after them."""

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from regard.data.config import PairsConfig
from regard.data.text import pairs
from regard.data.tokenizer import MASK
from regard.decode.config import Greedy, Hypothesis, Search
from regard.errors import UserError
from regard.progress import warn
from regard.tasks.lm.config import GenerateOptions
from regard.tasks.runnable import Tick, ignore

if TYPE_CHECKING:
    from torch import Tensor

    from regard.tasks.lm.runtime import Generator

Examples = Sequence[tuple[str, str]]
PLAIN = "{input}\n{answer}"
BETWEEN = "\n\n"  # two examples
NOTHING = ("", "N/A", MASK)  # inputs without content [Zhao+ 2021, section 5]
BUNCH = 64  # inputs whose labels are scored together


class Choice(NamedTuple):
    """A label, its probability among the labels, and its log-probability as what follows the prompt."""

    label: str
    probability: float
    log_prob: float


class Prompter:
    """A language model behind examples [Radford+ 2019; Brown+ 2020]."""

    def __init__(
        self,
        model: "Generator",
        examples: Examples = (),
        template: str | None = None,
        labels: Sequence[str] | None = None,
        *,
        search: Search | None = None,
        warn: Callable[[str], None] = warnings.warn,
    ) -> None:
        self.model, self.labels, self.warn, self._warned = model, list(labels or ()), warn, False
        if labels is not None and (len(labels) < 2 or not all(text.strip() and "\n" not in text for text in labels)):
            raise UserError(f"labels {', '.join(map(repr, labels))}: give two or more, each a line that is not empty")
        if twice := next((label for label in self.labels if self.labels.count(label) > 1), None):
            raise UserError(f"label {twice!r} is given twice; name each once")
        template = PLAIN if template is None else template
        self.before, *rest = re.split(r"(\{input\}|\{answer\})", template)
        if rest[::2] != ["{input}", "{answer}"]:
            like = r"Review: {input}\nMood: {answer}"
            raise UserError(
                f"template {template!r} has to hold {{input}} and then {{answer}}, each once, as in: {like}"
            )
        between, after = rest[1::2]
        self.stop = ["\n", *([after] if after else [])]
        self.between = between.rstrip(" ")  # words begin with their space, so a space belongs to the answer
        self.shots = [f"{self.before}{text}{between}{answer}{after}{BETWEEN}" for text, answer in examples]
        self.endings = ["", *(between[len(self.between) :] + label for label in self.labels)]
        room = model.room(search)
        self.room = room and (room if labels is None else model.max_length)
        rows, names = self._rows("", 0), ["nothing", *self.labels]
        for i, row in enumerate(rows):
            if (first := rows.index(row)) < i:
                raise UserError(f"label {names[i]!r} is the same as {names[first]!r} to this model; use words it knows")
        if self.room is not None and (size := max(map(len, rows))) > self.room:
            raise UserError(f"template and labels take {size} tokens, and this model reads {self.room}; shorten them")
        self.count = len(self.shots)
        if self.room is not None:  # a file may have far more than fit
            sizes = accumulate(len(ids) for ids in model.tokenizer.encode(self.shots[::-1], spaced=False))
            self.shots = self.shots[len(self.shots) - bisect_right(list(sizes), self.room) :]

    @staticmethod
    def of(model: "Generator", options: GenerateOptions) -> "Prompter":
        """With the examples of a file, and labels as `regard run` takes them."""
        file = pairs(PairsConfig(pairs=str(options.examples))) if options.examples else ()
        examples = [(pair.source, pair.target) for pair in file]
        labels = None if options.labels is None else [label.strip() for label in options.labels.split(",")]
        if labels == ["examples"]:
            if not examples:
                raise UserError("labels: examples are the answers in a file; give it as examples")
            labels = list(dict.fromkeys(answer for _, answer in examples))
        template = None if options.template is None else options.template.replace("\\n", "\n")
        prompter = Prompter(model, examples, template, labels, warn=warn, search=options.search(model.search))
        prompter.stop += options.stop
        return prompter

    def prompts(self, texts: Sequence[str], first: int = 1) -> list[str]:
        """Each input after the examples that fit; blank ones stay blank. The first is told as line `first`."""
        numbered = enumerate(texts, first)
        return [self._prompt(text, self._fitted(text, n)[0]) if text.strip() else "" for n, text in numbered]

    def answer(self, texts: Sequence[str]) -> list[str]:
        """What the model says after each input, up to the end of the line; nothing to a blank one. Words are the
        likeliest unless the model was given a search."""
        prompts, own = self.prompts(texts), self.model.loaded.search
        asked = self.model.search is not own
        search = self.model.search if asked else Greedy(max_length=own.max_length, never=own.never)
        filled = [prompt for prompt in prompts if prompt]
        found = iter(self.model.tell(filled, stop=self.stop, search=search) if filled else [])
        return [self.said(next(found)[0]) if prompt else "" for prompt in prompts]

    def said(self, hypothesis: Hypothesis) -> str:
        """An answer as text."""
        return self.model.text(hypothesis, self.stop).strip()

    def choose(
        self, texts: Sequence[str], *, calibrated: bool = True, first: int = 1, tick: Tick = ignore
    ) -> list[list[Choice]]:
        """For each input the labels, likeliest first; none for a blank one. Calibrated, what the model says to inputs
        without content is divided out [Zhao+ 2021, section 5]."""
        found: list[list[Choice]] = [[] for _ in texts]
        bias: dict[int, Tensor] = {}  # by the number of examples
        filled = [i for i, text in enumerate(texts) if text.strip()]
        for at in range(0, len(filled), BUNCH):
            members = filled[at : at + BUNCH]
            counts, rows = zip(*(self._fitted(texts[i], first + i) for i in members), strict=True)
            for i, count, said in zip(members, counts, self._log_probs(rows, lambda _: tick(at)), strict=True):  # noqa: B023
                if calibrated and count not in bias:
                    nothing = [self._cut(self._rows(text, count)) for text in NOTHING]
                    # of the sum: a constant for all labels cancels
                    bias[count] = self._log_probs(nothing).log_softmax(-1).logsumexp(0)
                told = (said - bias[count] if calibrated else said).softmax(-1)
                choices = map(Choice, self.labels, told.tolist(), said.tolist())
                found[i] = sorted(choices, key=lambda choice: -choice.probability)
            tick(members[-1] + 1)
        return found

    def _prompt(self, text: str, count: int) -> str:
        return "".join([*self.shots[len(self.shots) - count :], self.before, text, self.between])

    def _rows(self, text: str, count: int) -> list[list[int]]:
        """The tokens of a prompt as it is, and with each label. Labels are read together with what precedes them, for
        where one token ends and the next begins may depend on both."""
        tokenizer, prompt = self.model.tokenizer, self._prompt(text, count)
        rows = tokenizer.encode([prompt + ending for ending in self.endings], spaced=False)
        return [tokenizer.prompt(ids, self.model.start) for ids in rows]

    def _fitted(self, text: str, line: int) -> tuple[int, list[list[int]]]:
        """How many examples fit before an input, and its rows. One that does not fit even alone loses its beginning."""
        for count in range(len(self.shots), -1, -1):
            rows = self._rows(text, count)
            if (cut := self._cut(rows)) == rows:
                break
        else:
            self.warn(f"line {line} is longer than {self.room} tokens; the beginning of it is not read")
        if count < self.count and not self._warned:
            self._warned = True
            those = f"{count} of the {self.count} examples fit before line {line}"
            self.warn(f"{those}; wherever {self.room} tokens do not hold them all, the oldest are left out")
        return count, cut

    def _cut(self, rows: list[list[int]]) -> list[list[int]]:
        over = 0 if self.room is None else max(0, max(map(len, rows)) - self.room)
        return [row[over:] for row in rows]

    def _log_probs(self, asked: Sequence[list[list[int]]], tick: Tick = ignore) -> "Tensor":
        """Of each label after each input (N, L)."""
        import torch

        flat, firsts = list[Sequence[int]](), list[int]()
        for rows in asked:
            same = [len(set(column)) == 1 for column in zip(*rows, strict=False)]
            shared = min([*same, False].index(False), min(map(len, rows[1:])) - 1)  # a label has a token at least
            flat += rows[1:] if shared else [self.model.led(row) for row in rows[1:]]
            firsts += [max(1, shared)] * len(self.labels)
        found = torch.zeros(len(flat), dtype=torch.float64)
        for i, own in self.model.log_probs(flat):
            found[i] = own[firsts[i] - 1 :].sum()
            tick(i)
        return found.view(len(asked), -1)
