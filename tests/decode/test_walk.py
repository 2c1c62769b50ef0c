from dataclasses import replace

import pytest
import torch
from tests.contracts.family import CONFIGS, SOURCES, a_source
from tests.contracts.test_search import Table

from regard.decode.config import Beam, Greedy, Sample, Search
from regard.decode.filters import Forbid
from regard.decode.search import decode
from regard.decode.walk import truncate
from regard.errors import UserError
from regard.models.build import build
from regard.shapes import Padded


def test_samples_follow_the_distribution() -> None:
    """First words of 20,000 sentences with one table: within 5 standard errors of its probabilities."""
    model, count = Table(1, 3), 20_000
    said = decode(model, Padded.of([[0]] * count), Sample(max_length=1))
    counts = torch.bincount(torch.tensor([h[0].tokens[0] for h in said]), minlength=5) / count
    wanted = model.log_probs[0, 0, 1].exp()
    assert ((counts - wanted).abs() < 5 * (wanted * (1 - wanted) / count).sqrt() + 1e-9).all()


def test_a_sentence_s_sample_does_not_depend_on_its_neighbours() -> None:
    model = build(CONFIGS["preset-transformer_tiny"]).double()
    search = Sample(max_length=8, temperature=1.5, seed=4)
    together = decode(model, a_source(), search, sentences=[10, 11, 12])
    for i in (2, 0, 1):
        ((alone,),) = decode(model, a_source([SOURCES[i]]), search, sentences=[10 + i])
        assert alone.tokens == together[i][0].tokens
    others = decode(model, a_source(), Sample(max_length=8, temperature=1.5, seed=5), sentences=[10, 11, 12])
    assert [h[0].tokens for h in others] != [h[0].tokens for h in together]


def test_cold_or_narrow_samples_are_greedy() -> None:
    batch = Padded.of([[0], [1], [2]])
    greedy = [h[0].tokens for h in decode(Table(3, 1), batch, Greedy(max_length=6))]
    for search in (
        Sample(temperature=1e-4, max_length=6),
        Sample(top_k=1, max_length=6),
        Sample(top_p=1e-6, max_length=6),
    ):
        assert [h[0].tokens for h in decode(Table(3, 1), batch, search)] == greedy


def test_top_k_and_top_p_keep_the_fewest_likeliest() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()[:, [2, 0, 3, 1]]
    ordered, words = truncate(log_probs, Sample(top_p=0.75))
    assert words.tolist() == [[1, 3, 0, 2]]
    assert (ordered > -torch.inf).tolist() == [[True, True, False, False]]
    ordered, words = truncate(log_probs, Sample(top_k=3))
    assert words.tolist() == [[1, 3, 0]]
    assert truncate(log_probs, Sample(top_k=99))[1].shape == (1, 4)


def test_prefixes_are_read_before_the_first_word() -> None:
    model = build(CONFIGS["preset-recurrent_luong"]).double()
    prefix = Padded.of([[1, 5, 6], [1], [1, 7]])
    said = decode(model, a_source(), Greedy(max_length=4), prefix=prefix)
    beams = decode(model, a_source(), Beam(size=3, max_length=4), prefix=prefix)
    for i, words in enumerate(prefix.lists()):
        full = torch.tensor([words])
        for word in said[i][0].tokens:
            assert model(a_source([SOURCES[i]]), full)[0, -1].argmax() == word
            full = torch.cat((full, torch.tensor([[word]])), 1)
        assert beams[i][0].score >= said[i][0].score - 1e-12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Greedy(max_length=0), "max_length 0 .* 1 .*1,048,576"),
        (lambda: Sample(temperature=0.0), r"temperature 0\.0 .*greedy"),
        (lambda: Sample(top_k=0), "top_k 0 .* 1 .*1,048,576"),
        (lambda: Sample(top_p=0.0), r"top_p 0\.0 .*0\.9"),
        (lambda: Beam(size=0), "size 0 .* 1 .*4,096"),
        (lambda: Beam(size=2, num_best=3), "num_best 3 .* 2.* 1 .* 2"),
    ],
)
def test_searches_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("search", [Greedy(max_length=15), Sample(max_length=15), Beam(size=3, max_length=15)])
def test_an_output_may_be_as_long_as_its_own_source_allows(search: Search) -> None:
    """Outputs that never end by themselves stop at 2 tokens for each of the source and 10, or at max_length, and are
    what a search of one sentence with that limit finds."""
    model, sources = Table(4, 6), [[0], [1, 1], [2, 2, 2], [3]]
    filters = [Forbid([model.end])]
    found = decode(model, Padded.of(sources), replace(search, max_ratio=2.0), filters=filters)
    assert [len(best[0].tokens) for best in found] == [12, 14, 15, 12]
    for i, source in enumerate(sources):
        alone = replace(search, max_length=min(15, 2 * len(source) + 10))
        ((best,),) = decode(model, Padded.of([source]), alone, filters=filters, sentences=[i])
        assert best.tokens == found[i][0].tokens
    with pytest.raises(UserError, match="max_ratio nan"):
        replace(search, max_ratio=float("nan"))
