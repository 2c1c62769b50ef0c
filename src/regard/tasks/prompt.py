"""Prompts made of examples: a language model answers as they do, or tells which label is likeliest after them."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.decode.config import Greedy, Hypothesis
from regard.errors import UserError
from regard.tasks.ready import TOGETHER, Rows
from regard.tasks.teller import Examples, Teller

if TYPE_CHECKING:
    from torch import Tensor

PLAIN = "{input}\n{answer}"
BETWEEN = "\n\n"  # two examples
NOTHING = ("", "N/A", "[MASK]")  # inputs without content [Zhao+ 2021, section 5]
ONWARD = 1024  # tokens of examples that are read at once
BUNCH = 1 << 22  # characters that are tokenised at once


class Choice(NamedTuple):
    """A label, its probability among the labels, and its log-probability as what follows the prompt."""

    label: str
    probability: float
    log_prob: float


class Fitted(NamedTuple):
    """How many examples fit before an input, and the tokens of its prompt, then of the prompt with each label."""

    shots: int
    rows: Rows


class Prompter:
    """A language model behind examples [Radford+ 2019; Brown+ 2020]; it keeps what it read of them."""

    def __init__(
        self,
        model: Teller,
        examples: Examples = (),
        template: str | None = None,
        labels: Sequence[str] | None = None,
        *,
        warn: Callable[[str], None] = warnings.warn,
    ) -> None:
        self.model, self.labels, self.warn, self._warned = model, list(labels or ()), warn, False
        if labels is not None:
            _check_labels(labels)
        self.before, between, after = _parted(PLAIN if template is None else template)
        self.stop = ["\n", *([after] if after else [])]
        self.between = between.rstrip(" ")  # words begin with their space, so a space belongs to the answer
        space = between[len(self.between) :]
        self.shots = [f"{self.before}{text}{between}{answer}{after}{BETWEEN}" for text, answer in examples]
        self.endings = ["", *(space + label for label in self.labels)]
        self.room = model.room and (model.room if labels is None else model.max_length)
        self._check()
        self.most = self._fit(NOTHING, len(self.shots))
        self._read: tuple[int, list[int], Any] | None = None
        self._nothing: dict[int, Tensor] = {}

    def prompts(self, texts: Sequence[str], first: int = 1) -> list[str]:
        """Each input after the examples that fit; blank ones stay blank. The first is told as line `first`."""
        fitted = self._fitted(texts, first)
        return ["" if fit is None else self._prompt(text, fit.shots) for text, fit in zip(texts, fitted, strict=True)]

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
        self,
        texts: Sequence[str],
        *,
        calibrated: bool = True,
        first: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> list[list[Choice]]:
        """For each input the labels, likeliest first; none for a blank one. Calibrated, what the model says to inputs
        without content is divided out [Zhao+ 2021, section 5]."""
        found: list[list[Choice]] = [[] for _ in texts]
        size = max(1, BUNCH // (len(self.endings) * len(self._prompt("", self.most) + "\n")))
        for at in range(0, len(texts), size):
            fitted = self._fitted(texts[at : at + size], first + at)
            for count in sorted({fit.shots for fit in fitted if fit}):
                members = [i for i, fit in enumerate(fitted) if fit and fit.shots == count]
                said = self._log_probs(count, [fit.rows for fit in fitted if fit and fit.shots == count])
                told = (said - self._bias(count) if calibrated else said).softmax(-1)
                for i, *both in zip(members, told.tolist(), said.tolist(), strict=True):
                    choices = map(Choice, self.labels, *both)
                    found[at + i] = sorted(choices, key=lambda choice: -choice.probability)
            if tick is not None:
                tick(min(at + size, len(texts)))
        return found

    def _prompt(self, text: str, count: int) -> str:
        return "".join([*self.shots[len(self.shots) - count :], self.before, text, self.between])

    def _rows(self, texts: Sequence[str], count: int) -> list[Rows]:
        """The tokens of each prompt as they are, and with each label. Labels are read together with what precedes them,
        for where one token ends and the next begins may depend on both."""
        rows = iter(self._tokens([self._prompt(text, count) + ending for text in texts for ending in self.endings]))
        return [[next(rows) for _ in self.endings] for _ in texts]

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer, start = self.model.tokenizer, self.model.start
        return [tokenizer.prompt(ids, start) for ids in tokenizer.encode(texts, spaced=False)]

    def _check(self) -> None:
        ((prompt, *labelled),) = self._rows([""], 0)
        for i, row in enumerate(labelled):
            if row == prompt or row in labelled[:i]:
                other = self.labels[labelled.index(row)] if row in labelled[:i] else "nothing"
                raise UserError(f"label {self.labels[i]!r} is the same as {other!r} to this model; use words it knows")
        size = max(map(len, (prompt, *labelled)))
        if self.room is not None and size > self.room:
            raise UserError(f"template and labels take {size} tokens, and this model reads {self.room}; shorten them")

    def _fit(self, texts: Sequence[str], most: int) -> int:
        """How many of the examples, the newest `most` at most, fit before each of these inputs."""
        if self.room is None:
            return most

        def size(count: int) -> int:
            return max(map(_longest, self._rows(texts, count)))

        some = 1  # a file may have far more than fit
        while some < most and size(some) <= self.room:
            some *= 2
        return max(0, bisect_right(range(min(some, most) + 1), self.room, key=size) - 1)

    def _fitted(self, texts: Sequence[str], first: int) -> list[Fitted | None]:
        """Blank inputs have none. An input that does not fit even alone loses its beginning."""
        whole = iter(self._rows([text for text in texts if text.strip()], self.most))
        fitted = [Fitted(self.most, next(whole)) if text.strip() else None for text in texts]
        for i, fit in enumerate(fitted):
            if fit and self.room is not None and _longest(fit.rows) > self.room:
                count = self._fit([texts[i]], self.most)
                (rows,) = self._rows([texts[i]], count)
                if _longest(rows) > self.room:
                    self.warn(f"line {first + i} is longer than {self.room} tokens; the beginning of it is not read")
                fitted[i] = Fitted(count, self._cut(rows))
        least, i = min(((fit.shots, i) for i, fit in enumerate(fitted) if fit), default=(len(self.shots), 0))
        if least < len(self.shots) and not self._warned:
            self._warned = True
            those = f"{least} of the {len(self.shots)} examples fit before line {first + i}"
            self.warn(f"{those}; wherever {self.room} tokens do not hold them all, the oldest are left out")
        return fitted

    def _cut(self, rows: Rows) -> Rows:
        over = 0 if self.room is None else max(0, _longest(rows) - self.room)
        return [row[over:] for row in rows]

    def _bias(self, count: int) -> Tensor:
        """Log of the labels' mean probabilities (L,) after inputs without content."""
        if count not in self._nothing:
            said = self._log_probs(count, [self._cut(rows) for rows in self._rows(NOTHING, count)]).log_softmax(-1)
            self._nothing[count] = said.logsumexp(0)  # of the sum: a constant for all labels cancels
        return self._nothing[count]

    def _log_probs(self, count: int, asked: Sequence[Rows]) -> Tensor:
        """Of each label after each input (N, L); the examples, so many, are read once."""
        import torch

        net, (shared, examples) = self.model.model, self._examples(count)
        found = torch.zeros(len(asked), len(self.labels), dtype=torch.float64)
        prompts, labels = zip(*(_parts(rows, self.model.start) for rows in asked), strict=True)
        known = [len(shared) < len(prompt) and prompt[: len(shared)] == shared for prompt in prompts]
        for members in self._alike(prompts, known):
            done, state = (len(shared), examples) if known[members[0]] else (0, net.nothing_yet(1))
            tokens = torch.tensor([prompts[i][done:] for i in members])
            with torch.no_grad():
                x, state = net.advance(tokens, state.select(torch.zeros(len(members), dtype=torch.long)))
                found[members] = self._ends(x[:, -1], state, [labels[i] for i in members], len(prompts[members[0]]))
        return found

    def _examples(self, count: int) -> tuple[list[int], Any]:
        """The tokens that prompts with so many examples begin with, and the state after them."""
        import torch

        if self._read is None or self._read[0] != count:
            shots = "".join(self.shots[len(self.shots) - count :])
            shared = _shared([*self._tokens([shots]), *(rows[0] for rows in self._rows(NOTHING, count))])
            net, state = self.model.model, self.model.model.nothing_yet(1)
            for at in range(0, len(shared), ONWARD):
                with torch.no_grad():
                    _, state = net.advance(torch.tensor([shared[at : at + ONWARD]]), state)
            self._read = count, shared, state
        return self._read[1:]

    def _alike(self, prompts: Rows, known: Sequence[bool]) -> Iterator[list[int]]:
        """Prompts of one length, which need no padding, by their numbers."""
        groups: dict[tuple[bool, int], list[int]] = {}
        for i, prompt in enumerate(prompts):
            groups.setdefault((known[i], len(prompt)), []).append(i)
        for (_, length), members in groups.items():
            size = self.model.batch_size or max(1, TOGETHER // length)
            yield from (members[at : at + size] for at in range(0, len(members), size))

    def _ends(self, x: Tensor, state: Any, labels: Sequence[Rows], length: int) -> Tensor:
        """Log-probabilities of labels (N, L) after vectors (N, C) of N prompts of that length."""
        import torch

        from regard.nn.loss import lost
        from regard.shapes import Padded

        net, width = self.model.model, len(self.labels)
        flat = [label for some in labels for label in some]
        firsts, each = torch.tensor([label[0] for label in flat]), torch.arange(len(labels)).repeat_interleave(width)
        found = net.head(x).log_softmax(-1)[each, firsts].double()
        longer = [i for i, label in enumerate(flat) if len(label) > 1]
        size = max(1, TOGETHER // (length + max(map(len, flat))))
        for at in range(0, len(longer), size):
            some = longer[at : at + size]
            wanted = Padded.of([flat[i] for i in some])
            real = torch.arange(1, wanted.tokens.shape[1])[None] < wanted.lengths[:, None]
            more, _ = net.advance(wanted.tokens[:, :-1], state.select(each[some]))
            nats = torch.zeros(real.shape, dtype=torch.float64)
            nats[real] = lost(net.head, more[real], wanted.tokens[:, 1:][real]).double()
            found[some] -= nats.sum(1)
        return found.view(len(labels), width)


def _parted(template: str) -> tuple[str, str, str]:
    """What stands before the input, between it and the answer, and after that."""
    before, *rest = re.split(r"(\{input\}|\{answer\})", template)
    if rest[::2] != ["{input}", "{answer}"]:
        like = r"Review: {input}\nMood: {answer}"
        raise UserError(f"template {template!r} has to hold {{input}} and then {{answer}}, each once, as in: {like}")
    return before, rest[1], rest[3]


def _check_labels(labels: Sequence[str]) -> None:
    if len(labels) < 2 or not all(label.strip() and "\n" not in label for label in labels):
        raise UserError(f"labels {', '.join(map(repr, labels))}: give two or more, each a line that is not empty")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"label {twice!r} is given twice; name each once")


def _longest(rows: Rows) -> int:
    return max(map(len, rows))


def _shared(rows: Rows) -> list[int]:
    """What all rows begin with."""
    columns = enumerate(zip(*rows, strict=False))
    return list(rows[0][: next((i for i, column in columns if len(set(column)) > 1), min(map(len, rows)))])


def _parts(rows: Rows, start: int) -> tuple[list[int], Rows]:
    """What all rows begin with, and what each but the first, the prompt alone, goes on with."""
    if not (shared := _shared(rows)[: min(map(len, rows[1:])) - 1]):  # a label has a token at least
        shared, rows = [start], [[start, *row] for row in rows]
    return shared, [row[len(shared) :] for row in rows[1:]]
