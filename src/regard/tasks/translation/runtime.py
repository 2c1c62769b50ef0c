"""A trained model, ready to translate: raw text in and out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text import Pair
from regard.decode.config import Hypothesis, Search
from regard.engine.engine import Rows
from regard.errors import UserError
from regard.look.look import Look
from regard.progress import warn
from regard.shapes import Row
from regard.tasks.options import Texts, listed
from regard.tasks.runnable import Evaluation, Prediction, Predictions, Runnable, Tick, ids_of, ignore
from regard.tasks.translation.config import TranslateOptions, TranslationEvaluation

if TYPE_CHECKING:
    from torch import Tensor

    from regard.engine.explain import Explanation


@dataclass(frozen=True)
class Output:
    """What a model says to one line, which may have been translated in parts."""

    text: str
    score: float
    log_prob: float
    parts: list[str]
    tokens: list[Sequence[int]]
    """Of each part."""
    cut: bool
    """Whether a part reached its limit of tokens."""
    alignment: str | None = None
    """Links of words, as 0-0 1-2, where they were asked for."""

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        names = ("text", "score", "log_prob", *(["alignment"] if self.alignment is not None else []))
        return {name: getattr(self, name) for name in names}


class Translator(Runnable):
    """A translator: `model("I ate an apple")`, `model.attend("an apple").save("fig.svg")`; blank in, blank out."""

    def __call__(self, texts: str | Texts, **options: Any) -> str | list[str]:
        """The best translation of a text, or of each: `model(texts, beam=5)`."""
        found = [outputs[0].text if outputs else "" for outputs in self.translate(listed(texts), **options)]
        return found[0] if isinstance(texts, str) else found

    def translate(self, texts: str | Texts, *, tick: Tick = ignore, **options: Any) -> list[list[Output]]:
        """For each text its outputs, best first, with scores, tokens and, by `alignment=True`, links of words."""
        return self.outputs(listed(texts), self.options(options), tick)

    def predict(self, texts: Texts, options: TranslateOptions, *, first: int = 1, tick: Tick = ignore) -> Predictions:
        predictions = []
        for number, outputs in enumerate(self.outputs(texts, options, tick), first):
            if outputs and len(outputs[0].parts) > 1:
                many = f"it was translated in {len(outputs[0].parts)} parts"
                warn(f"line {number} is longer than {self.max_length} tokens; {many}")
            if outputs and outputs[0].cut:
                warn(f"line {number}: the output reached its limit of tokens and may lack its end")
            line = outputs[0].text if outputs else ""
            link = f" ||| {outputs[0].alignment if outputs else ''}" if options.alignment else ""
            predictions.append(Prediction(line + link, {"outputs": [output.data() for output in outputs]}))
        return predictions

    def about(self, options: TranslateOptions) -> str:
        return f"engine: {self.engine.about}"

    def served(self) -> dict[str, Any]:
        self.tag = next(iter(self.tokenizers.source.tags), None)
        if self.front is None:
            self.hypotheses(["a"])
        return {"engine": self.engine.about, "tags": [*self.tokenizers.source.tags]}

    def evaluated(self, options: TranslationEvaluation) -> Evaluation:
        from regard.tasks.translation.evaluate import evaluate

        return evaluate(self, options)

    def attend(self, text: str, target: str | None = None, *, shown: int | None = None) -> Look:
        (source,) = self.tokenizers.read([text], self.tag)
        if len(source) > self.max_length:
            most = f"longer than the {self.max_length} tokens that can be looked at; take a part"
            raise UserError(f"the text has {len(source):,} tokens, {most}")
        (told,) = self.explain([text], None if target is None else self.spelled([target]), shown=shown)
        return self.look(told, searched=target is None)

    def hypotheses(self, texts: Texts, tick: Tick = ignore, search: Search | None = None) -> list[list[Hypothesis]]:
        """For each text its hypotheses, best first; none for a blank one. No text is split."""
        sources = [source for _, source in self._read(listed(texts))]
        filled = [source for source in sources if len(source)]
        outputs = iter(self.engine.decode(filled, search or self.search, tick=tick))
        return [next(outputs) if len(source) else [] for source in sources]

    def best_of(self, pairs: Iterable[Pair], tick: Tick = ignore, search: Search | None = None) -> list[str]:
        """For the source of each pair its best hypothesis as text, in the direction of its tag; nothing for a blank."""
        found = (self.hypotheses([pair.source for pair in some], tick, search) for some in self._directed(pairs))
        return [self.text(each[0]) if each else "" for each in chain.from_iterable(found)]

    def likelihood_of(self, pairs: Iterable[Pair], batch_tokens: int) -> tuple[float, int]:
        """The log-probability of all targets together, given their sources, and how many tokens they have."""
        directed = self._directed(pairs)
        parts = [self.score([p.source for p in some], [p.target for p in some], batch_tokens) for some in directed]
        return sum(float(log_probs.sum()) for log_probs, _ in parts), sum(tokens for _, tokens in parts)

    def _directed(self, pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
        """Pairs of one direction after the other, which is the model's meanwhile."""
        before = self.tag
        for self.tag, members in groupby(pairs, key=attrgetter("tag")):
            yield list(members)
        self.tag = before

    def outputs(self, lines: Texts, options: TranslateOptions, tick: Tick = ignore) -> list[list[Output]]:
        """For each line its outputs, best first; a long one is translated in parts, and never cut."""
        before, self.tag = self.tag, options.tag or self.tag
        try:
            split = [self._split(line, source) if len(source) else [] for line, source in self._read(lines)]
            sources = [source for own in split for _, source in own]
            found = iter(self.engine.decode(sources, options.search(self.search), tick=tick))
            outputs = []
            for own in split:
                answers = [(part, next(found)) for part, _ in own]
                ranks = range(max((len(best) for _, best in answers), default=0))
                ranked = [[best[min(rank, len(best) - 1)] for _, best in answers] for rank in ranks]
                outputs.append([self._joined([part for part, _ in answers], each) for each in ranked])
            if not options.alignment:
                return outputs
            from regard.metrics.alignment import pharaoh
            from regard.tasks.translation.align import Reading, line_links

            links = line_links(self, [output for own in outputs for output in own], Reading.of(self.loaded.folder))
            for number, best in enumerate(outputs):
                outputs[number] = [replace(output, alignment=pharaoh(next(links))) for output in best]
                tick(number + 1)
            return outputs
        finally:
            self.tag = before

    def _read(self, texts: Texts) -> list[tuple[str, Row]]:
        """Each text with what the model reads of it, of a blank one nothing; all are tokenized together, once."""
        rows = iter(self.tokenizers.read([text for text in texts if text.strip()], self.tag))
        return [(text, next(rows) if text.strip() else []) for text in texts]

    def _split(self, text: str, source: Row) -> list[tuple[str, Row]]:
        """A text that is longer than what the model was trained on, in parts that are not; else the text alone, and of
        what is no text all."""
        divisible = self.front is None and len(text) > 1  # a character of many tokens stays whole
        if len(source) <= self.max_length or not divisible:
            return [(text, source)]
        space = " " if " " in text else ""  # or one endless word
        words = text.split(" ") if space else list(text)
        halves = space.join(words[: len(words) // 2]), space.join(words[len(words) // 2 :])
        return [part for half in self._read(halves) if len(half[1]) for part in self._split(*half)]

    def _joined(self, parts: list[str], said: list[Hypothesis]) -> Output:
        score, log_prob = sum(h.score for h in said) / len(said), sum(h.log_prob for h in said)
        cut = any(h.tokens[-1] != self.end for h in said)
        return Output(" ".join(map(self.text, said)), score, log_prob, parts, [h.tokens for h in said], cut)

    def logits(self, source_ids: Any, target_ids: Any) -> "Tensor":
        """Of the word after each of target_ids, which begin with the start token: (B, T, V), or (T, V) of one row."""
        sources, _ = ids_of(source_ids, self.model.config.source_vocabulary)
        targets, alone = ids_of(target_ids, self.model.config.target_vocabulary)
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} rows of source ids and {len(targets)} of target ids; give as many")
        from torch import no_grad

        with no_grad():
            logits: Tensor = self.model(sources, targets.tokens)
        return logits[0] if alone else logits

    def score(self, texts: Texts, targets: Texts, batch_tokens: int = 4096) -> tuple[NDArray[np.float64], int]:
        """The log-probability of each target with its end mark, given its text, and how many tokens that were."""
        from regard.tasks.translation.task import log_probs

        said = self.tokenizer.encode(listed(targets))
        found = log_probs(self.model, self.tokenizers.read(listed(texts), self.tag), said, batch_tokens)
        return found, sum(len(ids) + 1 for ids in said)

    def text(self, hypothesis: Hypothesis) -> str:
        """One line, whatever the model says."""
        return " ".join(self.tokenizer.decode(hypothesis.tokens).split("\n"))

    def spelled(self, targets: Texts) -> list[list[int]]:
        """Targets as outputs: tokens and the end mark."""
        return [[*ids, self.end] for ids in self.tokenizer.encode(listed(targets))]

    def explain(self, texts: Texts, outputs: Rows | None = None, **how: Any) -> "list[Explanation]":
        """What the model looked at while it translated each text, or would have for outputs given."""
        sources = self.tokenizers.read(texts, self.tag)
        said = outputs or [best[0].tokens for best in self.engine.decode(sources, self.search)]
        return list(self.explained(texts, said, **how))

    def explained(
        self, texts: Texts, outputs: Rows, muted: tuple[str, int] | None = None, shown: int | None = None
    ) -> "Iterator[Explanation]":
        """Of each text and its output in turn, without a head; as many in a pass as can be held, and none is kept."""
        from regard.attention.site import Trace
        from regard.engine.explain import batches, explain

        texts = listed(texts)
        if not all(text.strip() for text in texts):
            raise UserError("nothing to look at: the text is blank; give a sentence")
        sources = self.tokenizers.read(texts, self.tag)
        for some in batches(self.model, sources, outputs):
            yield from explain(self.model, sources[some], outputs[some], Trace(muted=muted), shown)
