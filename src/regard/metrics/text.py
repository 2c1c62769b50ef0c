"""Scores of texts: BLEU and chrF as sacreBLEU computes them, shares of exact matches, and error rates.

BLEU and chrF run from 0 to 100 and carry sacreBLEU's signature; shares and rates are fractions, 0.25 for a quarter.
A reference may be several texts, each as good as the other: shares and rates take the nearest, the first of equals.
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.errors import UserError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


References = Sequence[str | Sequence[str]]


@dataclass(frozen=True)
class Scored:
    """A score, and where there is one the signature that says how to get it again."""

    name: str
    value: float
    signature: str | None = None


def edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions of one token that turn one sequence into the other.

    The table is filled a row at a time [Wagner+ 1974]. Insertions chain along a row: with i taken off entry i, they
    cost nothing, and a running minimum does them all at once.
    """
    numbers = {token: i for i, token in enumerate({*first, *second})}
    columns = np.array([numbers[token] for token in second], dtype=np.int64)
    steps = np.arange(len(columns) + 1)
    row = steps
    for i, token in enumerate(first, 1):
        changed = row[:-1] + (columns != numbers[token])
        row = np.concatenate(([i], np.minimum(changed, row[1:] + 1)))
        row = np.minimum.accumulate(row - steps) + steps
    return int(row[-1])


def ways(references: References) -> list[Sequence[str]]:
    """The texts of each."""
    several = [(each,) if isinstance(each, str) else each for each in references]
    if empty := next((i for i, each in enumerate(several, 1) if not each), 0):
        raise UserError(f"item {empty} of {len(several)} has no reference; give one text or more")
    return several


def streams(references: References) -> list[Any]:
    """First references, second ones and so on, as sacreBLEU takes them."""
    return [list(stream) for stream in zip_longest(*ways(references))]


def check(outputs: Sized, references: Sized, name: str = "outputs") -> None:
    """Raise unless there is one reference for each output, and at least one of them."""
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} {name} for {len(references)} references; give one for each")
    if not len(outputs):
        raise UserError(f"no {name} to score; give at least one and its reference")


def sacrebleu_metric(name: str) -> "Metric":
    """sacreBLEU's own object for "bleu", "bleu_tokenized" or "chrf"."""
    try:
        from sacrebleu.metrics.bleu import BLEU  # here, because the base install does without it
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise UserError(f'{name} needs sacrebleu, which is not installed; pip install "regard[train]"') from error
    if name == "chrf":
        return CHRF()
    # force: no word about text that looks tokenised.
    return BLEU(tokenize="none" if name == "bleu_tokenized" else "13a", force=True)


SHARES: dict[str, Callable[[str, str], tuple[int, int]]] = {  # what is counted in a sentence, and of how many
    "exact_match": lambda output, reference: (int(output == reference), 1),
    "word_error_rate": lambda output, reference: (edits(output.split(), reference.split()), len(reference.split())),
}


def shares(name: str, output: str, reference: str | Sequence[str]) -> tuple[int, int]:
    """What is counted in a sentence, and of how many, by the nearest reference."""
    nearest = max if METRICS[name][1] == "higher" else min
    several = [reference] if isinstance(reference, str) else reference
    return nearest((SHARES[name](output, way) for way in several), key=lambda counts: counts[0])


def _share(name: str, outputs: Sequence[str], references: References) -> Scored:
    """What is counted in all sentences, over how many there are in all."""
    check(outputs, references)
    counts = [shares(name, *pair) for pair in zip(outputs, ways(references), strict=True)]
    total = sum(of for _, of in counts)
    if not total:
        raise UserError(f"the {len(references)} references hold no tokens, so there is no rate; give some that do")
    return Scored(name, sum(counted for counted, _ in counts) / total)


def _sacrebleu(name: str, outputs: Sequence[str], references: References) -> Scored:
    check(outputs, references)
    metric = sacrebleu_metric(name)
    score = metric.corpus_score(outputs, streams(references))
    return Scored(name, score.score, str(metric.get_signature()))


exact_match = partial(_share, "exact_match")  # outputs that equal their reference, character for character
word_error_rate = partial(_share, "word_error_rate")  # edits over words of the references; beyond 1 if outputs run on
bleu = partial(_sacrebleu, "bleu")  # of a corpus, with mteval's tokenisation, 13a [Papineni+ 2002]
bleu_tokenized = partial(_sacrebleu, "bleu_tokenized")  # as papers have it for tokenised text: split at spaces alone
chrf = partial(_sacrebleu, "chrf")  # chrF2, in which spaces do not count [Popović 2015]

METRICS: dict[str, tuple[Callable[[Sequence[str], References], Scored], Literal["higher", "lower"]]] = {
    "bleu": (bleu, "higher"),
    "bleu_tokenized": (bleu_tokenized, "higher"),
    "chrf": (chrf, "higher"),
    "exact_match": (exact_match, "higher"),
    "word_error_rate": (word_error_rate, "lower"),
}
