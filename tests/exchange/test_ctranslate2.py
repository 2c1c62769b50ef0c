"""Models in CTranslate2: the same words, with the same probabilities; and what it cannot have is told at once."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.attention.config import PositionConfig
from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.errors import UserError
from regard.exchange.ctranslate2 import decode_ctranslate2, write_ctranslate2
from regard.exchange.installed import installed
from regard.models.build import build
from regard.models.config import BertConfig, GptConfig, RecurrentConfig, RecurrentTextConfig, TransformerConfig
from regard.shapes import Padded

LEARNED = PositionConfig(kind="learned", max_length=40)
HALVES = PositionConfig(kind="rotary", layout="halves", base=500.0)
PAIR: dict[str, Any] = dict(width=24, hidden=20, num_heads=3, encoder_layers=2, decoder_layers=3)
PAIR |= dict(source_vocabulary=17, target_vocabulary=13)
PAIRS: dict[str, dict[str, Any]] = {
    "as-published": {},
    "norms-first": dict(placement="pre", position=PositionConfig(layout="halves", base=300.0), tied="output"),
    "bart": dict(tied="all", source_vocabulary=13, position=LEARNED, embedding_norm=True, output_bias=True)
    | dict(activation="gelu", scaled_embedding=False, start=2),
    "marian": dict(tied="all", source_vocabulary=13, position=PositionConfig(layout="halves"), activation="silu")
    | dict(output_bias=True, start=0, encoder_layers=3, decoder_layers=1),
    "coarse-norms": dict(placement="pre", norm_eps=0.1, activation="gelu_tanh", bias=False, scaled_embedding=False),
    "rms": dict(norm="rms", norm_eps=0.01, embedding_norm=True, activation="reglu"),
    "few-keys": dict(num_heads=4, num_kv_heads=2, placement="pre", activation="swiglu", start=5, end=7),
    "narrow-heads": dict(head_width=6, num_kv_heads=1, activation="geglu"),
    "rotary": dict(position=PositionConfig(kind="rotary"), placement="pre"),
    "rotary-halves": dict(position=HALVES, num_kv_heads=1),
    "shaw": dict(position=PositionConfig(kind="shaw", clip=3), placement="pre"),
}
TEXT: dict[str, Any] = dict(width=24, hidden=20, num_heads=4, num_layers=3, vocabulary=13)
LLAMA: dict[str, Any] = dict(placement="pre", norm="rms", bias=False, activation="swiglu", num_kv_heads=2)
TEXTS: dict[str, dict[str, Any]] = {
    "gpt1": dict(position=LEARNED, activation="gelu", start=1),
    "gpt2": dict(position=LEARNED, placement="pre", activation="gelu_tanh", norm_eps=0.01),
    "llama": dict(**LLAMA, position=HALVES, tied=False),
    "llama-by-turns": {**LLAMA, "position": PositionConfig(kind="rotary"), "num_kv_heads": 1, "head_width": 10},
    "alibi": dict(position=PositionConfig(kind="alibi"), num_heads=3, activation="geglu", placement="pre"),
    "shaw": dict(position=PositionConfig(kind="shaw", clip=3), tied=False, placement="pre"),
}
CONFIGS: dict[str, Any] = {name: TransformerConfig(**{**PAIR, **shape}) for name, shape in PAIRS.items()}
CONFIGS |= {f"{name}-alone": GptConfig(**{**TEXT, **shape}) for name, shape in TEXTS.items()}
LONGEST = 14


def random_model(config: Any, size: float = 3.0) -> Any:
    """Matrices so large that outputs vary, and no norm or bias that does nothing."""
    model, draw = build(config, seed=7).eval(), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.1)
            elif "table" not in name:
                parameter.mul_(size)
    return model


def words(config: Any) -> tuple[list[str], list[str]]:
    """Names of source and target tokens; they differ where the vocabularies do."""
    if config.kind == "gpt" or config.source_vocabulary == config.target_vocabulary:
        return ([f"w{i}" for i in range(13)],) * 2
    return [f"s{i}" for i in range(17)], [f"t{i}" for i in range(13)]


def random_texts(vocabulary: int, *before: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(9)
    lengths = torch.randint(0 if before else 1, 12, (40,), generator=draw).tolist()
    return [[*before, *torch.randint(3, vocabulary, (n,), generator=draw).tolist()] for n in lengths]


def named(rows: list[list[int]], names: list[str]) -> list[list[str]]:
    return [[names[i] for i in row] for row in rows]


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_greedy_tokens_are_identical_for_40_texts(name: str, tmp_path: Path) -> None:
    model = random_model(CONFIGS[name])
    source, target = words(model.config)
    alone = model.config.kind == "gpt"
    texts = random_texts(len(source), *[model.start] * alone)
    batch = Padded.of(texts)
    found = decode(model, batch, Greedy(max_length=LONGEST), prefix=batch if alone else None)
    mine = [best[0].tokens for best in found]
    write_ctranslate2(tmp_path, model, source, target, target[3])
    assert decode_ctranslate2(tmp_path, named(texts, source), LONGEST) == named(mine, target)
    assert len(set(map(tuple, mine))) > 7, "outputs that all look alike would prove little"


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_words_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    model, library = random_model(CONFIGS[name], size=1.0), installed("ctranslate2")
    source, target = words(model.config)
    write_ctranslate2(tmp_path, model, source, target, target[3])
    texts, outputs = random_texts(len(source)), random_texts(len(target))[::-1]
    rows = [[model.start, *output, model.end] for output in outputs]
    if alone := model.config.kind == "gpt":
        theirs = library.Generator(str(tmp_path)).score_batch(named(rows, target))
    else:
        theirs = library.Translator(str(tmp_path)).score_batch(named(texts, source), named(outputs, target))
    for text, row, other in zip(texts, rows, theirs, strict=True):
        tokens = torch.tensor([row])
        logits = model(tokens[:, :-1]) if alone else model(Padded.of([text]), tokens[:, :-1])
        mine = logits[0].log_softmax(-1).gather(1, tokens[0, 1:, None])[:, 0]
        assert mine.tolist() == pytest.approx(other.log_probs, abs=1e-5)  # float32 on both sides


@torch.no_grad()
def test_an_output_may_end_at_once(tmp_path: Path) -> None:
    model = random_model(CONFIGS["bart"])
    model.head.bias[model.end] += 100.0
    names, _ = words(model.config)
    write_ctranslate2(tmp_path, model, names, names, names[3])
    assert decode_ctranslate2(tmp_path, [["w5", "w2"]], LONGEST) == [["w2"]]


def test_tables_that_are_one_are_stored_once(tmp_path: Path) -> None:
    sizes = []
    for tied in ("none", "output", "all"):
        names = [f"w{i}" for i in range(13)]
        model = build(TransformerConfig(**{**PAIR, "source_vocabulary": 13}, tied=tied))
        write_ctranslate2(tmp_path / tied, model, names, names, names[3])
        sizes.append((tmp_path / tied / "model.bin").stat().st_size)
    table = 13 * 24 * 4
    assert table * 0.9 < sizes[0] - sizes[1] < table * 1.1
    assert table * 0.9 < sizes[1] - sizes[2] < table * 1.1


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "three-at-once": (
        TransformerConfig(**PAIR, placement="none", score="bilinear", position=PositionConfig(kind="alibi")),
        ["placement: none", "score: bilinear", "position.kind: alibi"],
    ),
    "naive": (
        GptConfig(**TEXT, score="dot", position=PositionConfig(kind="index", place="projections")),
        ["score: dot", "position.kind: index", "position.place: projections"],
    ),
    "no-position": (GptConfig(**TEXT, position=PositionConfig(kind="none")), ["position.kind: none"]),
    "recurrent": (RecurrentConfig(source_vocabulary=17, target_vocabulary=13, width=8, embedding=6), ["recurrent"]),
    "recurrent-text": (RecurrentTextConfig(vocabulary=13, width=8, embedding=6), ["recurrent_text"]),
    "bert": (BertConfig(**TEXT, position=LEARNED), ["bert"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_that_it_cannot_have_is_told_at_once(name: str, tmp_path: Path) -> None:
    config, reasons = REFUSED[name]
    names = [f"w{i}" for i in range(17)]
    with pytest.raises(UserError) as caught:
        write_ctranslate2(tmp_path / "out", build(config), names, names[:13], names[3])
    assert str(caught.value).count("model.") == len(reasons)
    assert all(reason in str(caught.value) for reason in reasons)
    assert not (tmp_path / "out").exists()


def test_texts_beyond_the_learned_positions_are_a_users_error(tmp_path: Path) -> None:
    model, names = random_model(CONFIGS["gpt2-alone"]), words(CONFIGS["gpt2-alone"])[0]
    write_ctranslate2(tmp_path, model, names, names, names[3])
    with pytest.raises(UserError, match="CTranslate2 .*position"):
        decode_ctranslate2(tmp_path, [["w5"] * 41], LONGEST)


def test_a_package_that_is_missing_is_named_with_its_cure() -> None:
    with pytest.raises(UserError, match="no_such_package.*regard.exchange."):
        installed("no_such_package.specs")
