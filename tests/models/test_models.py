from dataclasses import replace

import pytest
import torch
from tests.contracts.family import CONFIGS, a_source, a_target, shrunk

from regard.attention.config import PositionConfig
from regard.errors import UserError
from regard.models.build import build
from regard.models.config import RecurrentAttention, RecurrentConfig, TransformerConfig
from regard.models.presets import transformer_tiny
from regard.shapes import Padded

SIZES = dict(source_vocabulary=11, target_vocabulary=13)


def test_tied_tables_are_one_parameter() -> None:
    config = replace(shrunk(transformer_tiny().sized(13, 13)), tied="all")
    model = build(config)
    assert model.source_embedding.table is model.target_embedding.table is model.head.table
    assert sum("table" in name for name, _ in model.named_parameters()) == 1
    model.double()
    assert model.source_embedding.table is model.head.table, "also after a change of type"


def test_beams_of_one_sentence_share_its_memory() -> None:
    """Reordering a beam copies the past, not what every hypothesis of a sentence has in common."""
    model = build(CONFIGS["preset-transformer_tiny"])
    state = model.begin(a_source()).select(torch.tensor([0, 0, 1, 1, 2, 2]))
    reordered = state.select(torch.tensor([1, 0, 3, 3, 4, 5]))
    assert all(a.k is b.k for a, b in zip(state.memory, reordered.memory, strict=True))
    dropped = state.select(torch.tensor([0, 1, 4, 5]))
    assert dropped.memory[0].k.shape[0] == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TransformerConfig(**SIZES, width=30), "width 30 .*num_heads 8.* 24"),
        (lambda: TransformerConfig(**SIZES, tied="all"), "tied: all .*11 .*13 .*tied: output"),
        (lambda: TransformerConfig(**SIZES, end=13), "end .*13 .*13 "),
        (lambda: TransformerConfig(**SIZES, dropout=1.5), r"dropout 1\.5 .*0\.999999"),
        (lambda: RecurrentConfig(**SIZES, width=7), "width 7 .* 8"),
        (lambda: RecurrentConfig(**SIZES, bridge="copy", encoder_layers=2), "bridge: copy .* 2 .* 1 .*linear"),
        (lambda: RecurrentConfig(**SIZES, encoding="every"), "encoding: every .*attention: null"),
        (lambda: RecurrentConfig(**SIZES, attention=RecurrentAttention(num_heads=4)), "4 heads .*projection"),
        (
            lambda: build(RecurrentConfig(**SIZES, attention=RecurrentAttention(score="dot", query_word=True))),
            "queries.* 512 .*keys.* 256",
        ),
        (lambda: Padded.of([[5], []]), "sentence 2 of 2"),
        (lambda: Padded.of([]), "sentences"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_remedy(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["preset-transformer_tiny", "preset-recurrent_bahdanau"])
def test_bad_batches_are_told(name: str) -> None:
    model = build(CONFIGS[name])
    with pytest.raises(UserError, match="token.* 11 .* 11 "):
        model(a_source([[3, 11]]), a_target(1))
    with pytest.raises(UserError, match="source.* 0 .* 2 .* 2"):
        model(Padded(torch.tensor([[3, 4], [5, 6]]), torch.tensor([2, 0])), a_target(2))
    with pytest.raises(UserError, match="source.* 3 .* 3 .* 2"):
        model(Padded(torch.tensor([[3, 4]]), torch.tensor([3])), a_target(1))


def test_a_source_longer_than_the_learned_table_is_told() -> None:
    config = replace(shrunk(transformer_tiny().sized(11, 13)), position=PositionConfig(kind="learned", max_length=4))
    with pytest.raises(UserError, match="5 .*4 .*max_length 5"):
        build(config)(a_source([[3, 4, 5, 6, 7]]), a_target(1))


def test_fractions_serve_encoders_only() -> None:
    config = replace(shrunk(transformer_tiny().sized(11, 13)), position=PositionConfig(kind="fraction"))
    model = build(config)
    model.encode(a_source())
    with pytest.raises(UserError, match="fraction.*decoder"):
        model(a_source(), a_target())
