"""Models of Hugging Face's families, in and out: the same numbers, the same words."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from regard import load
from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.errors import UserError
from regard.exchange.export import export
from regard.exchange.families import FAMILIES
from regard.exchange.huggingface import kind_of, read_folder, write_folder
from regard.models.build import build
from regard.models.config import GptConfig, RecurrentConfig
from regard.models.presets import llama
from regard.shapes import Padded

WORDS, WRITERS = 53, ("gpt2", "llama", "mistral")
GPT2: dict[str, Any] = dict(vocab_size=WORDS, n_positions=40, n_embd=32, n_layer=3, n_head=4, initializer_range=0.3)
GPT2 |= dict(bos_token_id=1, eos_token_id=2)
LLAMA: dict[str, Any] = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=44, num_hidden_layers=3)
LLAMA |= dict(num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3)
BERT: dict[str, Any] = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=44, num_hidden_layers=3)
BERT |= dict(num_attention_heads=4, max_position_embeddings=20, initializer_range=0.3)
PAIR: dict[str, Any] = dict(
    vocab_size=WORDS, d_model=32, max_position_embeddings=40, encoder_layers=2, decoder_layers=3
)
PAIR |= dict(encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48)
PAIR |= dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, init_std=0.4, decoder_start_token_id=0)
ODD_PAIR = {**PAIR, "d_model": 24, "encoder_layers": 3, "decoder_layers": 1, "init_std": 0.4}
ODD_PAIR |= dict(encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=20)

MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)),
    "gpt2-relu": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(**GPT2, n_inner=20, activation_function="relu", layer_norm_epsilon=1e-3)
    ),
    "gpt2-untied": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(**{**GPT2, "n_embd": 24, "n_head": 3}, tie_word_embeddings=False)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA)),
    "llama-mqa": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**{**LLAMA, "num_key_value_heads": 1}, head_dim=6, rms_norm_eps=1e-4)
    ),
    "llama-biased": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_theta=500.0)
    ),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**LLAMA, sliding_window=5, tie_word_embeddings=True)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**BERT)),
    "bert-masked": lambda: hf.BertForMaskedLM(hf.BertConfig(**{**BERT, "num_attention_heads": 2}, hidden_act="relu")),
    "bert-pretraining": lambda: hf.BertForPreTraining(hf.BertConfig(**BERT, type_vocab_size=3, layer_norm_eps=1e-5)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**PAIR, scale_embedding=True, activation_function="swish")),
    "marian-odd": lambda: hf.MarianMTModel(hf.MarianConfig(**ODD_PAIR, activation_function="relu")),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**PAIR, scale_embedding=True)),
    "pegasus-odd": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**ODD_PAIR, activation_function="relu")),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**PAIR)),
    "bart-odd": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(**ODD_PAIR, scale_embedding=True, activation_function="gelu_new")
    ),
}
DRAW = torch.Generator().manual_seed(2)
TEXT, TARGET, PARTS = (torch.randint(low, high, (3, 11), generator=DRAW) for low, high in ((3, 50), (3, 50), (0, 2)))
LENGTHS = torch.tensor([11, 5, 8])
KEPT = torch.arange(11)[None] < LENGTHS[:, None]
SOURCE = Padded(TEXT, LENGTHS)


def foreign(name: str) -> Any:
    torch.manual_seed(5)
    model = MODELS[name]()
    for bias in (p for n, p in model.named_parameters() if n.endswith("bias")):
        bias.data.normal_(0.0, 0.1)
    return model.eval()


def outputs(theirs: Any) -> dict[str, Tensor]:
    if name_of(theirs) in WRITERS:
        return {"logits": theirs(TEXT).logits}
    if name_of(theirs) == "bert":
        found = theirs(input_ids=TEXT, attention_mask=KEPT.long(), token_type_ids=PARTS)
        told = {name: found.get(name) for name in ("last_hidden_state", "logits", "prediction_logits")}
        told = {name: value[KEPT] for name, value in told.items() if value is not None}
        more = {name: found.get(name) for name in ("pooler_output", "seq_relationship_logits")}
        return told | {name: value for name, value in more.items() if value is not None}
    return {"logits": theirs(input_ids=TEXT, attention_mask=KEPT.long(), decoder_input_ids=TARGET).logits}


def ours_like(theirs: Any, model: Any) -> dict[str, Tensor]:
    if name_of(theirs) in WRITERS:
        return {"logits": model(TEXT)}
    if name_of(theirs) == "bert":
        x = model(replace(SOURCE, segments=PARTS))
        found = {"last_hidden_state": x[KEPT]}
        if model.guess is not None:
            found |= {name: model.guess(x)[KEPT] for name in ("logits", "prediction_logits")}
        if model.pooler is not None:
            found["pooler_output"] = model.pooled(x)
        if model.follows is not None:
            found["seq_relationship_logits"] = model.follows(model.pooled(x))
        return found
    return {"logits": model(SOURCE, TARGET)}


def name_of(theirs: Any) -> str:
    return str(theirs.config.model_type)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_numbers_are_equal_in_and_out(name: str, tmp_path: Path) -> None:
    theirs = foreign(name)
    theirs.save_pretrained(tmp_path / "in")
    model = read_folder(tmp_path / "in").model
    wanted, found = outputs(theirs), ours_like(theirs, model)
    largest = max(float((found[key] - value).abs().max()) for key, value in wanted.items())
    print(f"\n{name}: largest difference {largest:.1e}, standard deviation {next(iter(wanted.values())).std():.1f}")
    assert largest <= 1e-5
    exact = ours_like(theirs, copy.deepcopy(model).double())
    plain = name_of(theirs) in ("gpt2", "bert", "bart")  # the others keep angles or sinusoids as float32
    for key, value in outputs(copy.deepcopy(theirs).double()).items():
        assert float((exact[key] - value).abs().max()) <= (1e-12 if plain else 1e-5)

    write_folder(tmp_path / "out", model, kind_of(model.config))
    again, info = type(theirs).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    for key, value in outputs(again.eval()).items():
        assert float((found[key] - value).abs().max()) <= 1e-5
    assert read_folder(tmp_path / "out").model.config == model.config


@pytest.mark.parametrize("name", ["gpt2", "gpt2-relu", "gpt2-untied", "llama", "llama-mqa", "llama-biased", "mistral"])
@pytest.mark.parametrize("count", [25, pytest.param(100, marks=pytest.mark.full)])
@torch.no_grad()
def test_greedy_tokens_are_identical(name: str, count: int, tmp_path: Path) -> None:
    theirs = foreign(name)
    theirs.save_pretrained(tmp_path)
    model = read_folder(tmp_path).model
    draw = torch.Generator().manual_seed(9)
    lengths = torch.randint(1, 12, (count,), generator=draw).tolist()
    prompts = Padded.of([torch.randint(3, WORDS, (n,), generator=draw).tolist() for n in lengths])
    mine = decode(model, prompts, Greedy(max_length=12), prefix=prompts)
    for ids, found in zip(prompts.lists(), mine, strict=True):
        options = dict(do_sample=False, max_new_tokens=12, pad_token_id=0)
        said = theirs.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), **options)[0, len(ids) :]
        assert found[0].tokens == said.tolist()
    assert len({tuple(found[0].tokens) for found in mine}) > count / 5, "outputs that all look alike would prove little"


def test_a_shape_that_nobody_there_has_is_refused_with_every_reason() -> None:
    config: Any = GptConfig(vocabulary=9, width=8, num_heads=2, norm="rms", activation="geglu", placement="pre")
    with pytest.raises(UserError, match="gpt2.*norm: rms.*layer.*activation: geglu.*llama.*activation: geglu"):
        kind_of(config)
    with pytest.raises(UserError, match="recurrent.*`to` onnx"):
        kind_of(RecurrentConfig())


def test_settings_that_are_unknown_here_are_told_all_at_once() -> None:
    values = {**hf.LlamaConfig(**LLAMA).to_dict(), "mlp_bias": True, "hidden_act": "gelu", "hidden_size": -3}
    values["rope_parameters"] = {"rope_type": "yarn", "rope_theta": 1e4}
    with pytest.raises(UserError) as error:
        FAMILIES["llama"].to_ours(values)
    for part in ("hidden_size .*-3", "hidden_act .*'gelu'", "mlp_bias .*True", "rope_type .*'yarn'"):
        assert re.search(part, str(error.value))


@pytest.mark.parametrize("name", FAMILIES)
def test_rates_of_dropout_come_in_and_go_out(name: str) -> None:
    """What is trained further is trained as its makers did."""
    settings = next(make().config for kind, make in MODELS.items() if kind == name).to_dict()
    family, rates = FAMILIES[name], FAMILIES[name].rates
    given = {theirs: 0.1 * (1 + list(rates.values()).index(ours)) for theirs, ours in rates.items()}
    assert given.keys() <= settings.keys(), "what these models know by another name"
    config = family.to_ours({**settings, **given})
    assert {theirs: getattr(config, ours) for theirs, ours in rates.items()} == given
    assert {theirs: family.to_theirs(config)[theirs] for theirs in rates} == given
    assert all(getattr(family.to_ours({**settings, **dict.fromkeys(given)}), ours) == 0 for ours in rates.values())
    with pytest.raises(UserError, match=rf"{next(iter(given))} .*1\.5.* 0 .*1"):
        family.to_ours({**settings, **dict.fromkeys(given, 1.5)})


def test_our_own_models_go_out_too(tmp_path: Path) -> None:
    model = build(replace(llama(), vocabulary=WORDS, width=24, num_heads=6, hidden=32, num_layers=2))
    write_folder(tmp_path, model, kind_of(model.config))
    theirs = hf.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert float((theirs(TEXT).logits - model(TEXT)).abs().max()) <= 1e-5
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "llama"


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert-masked", "marian", "bart"])
@torch.no_grad()
def test_a_folder_without_its_tokenizer_gives_logits_alone(name: str, tmp_path: Path) -> None:
    theirs = foreign(name)
    theirs.save_pretrained(tmp_path)
    model = load(tmp_path)
    ids = [[5, 9, 4], [7, 3, 8]]
    if name in ("marian", "bart"):
        wanted = theirs(input_ids=torch.tensor(ids), decoder_input_ids=torch.tensor(ids)[:, :2]).logits
        found, one = model.logits(ids, [row[:2] for row in ids]), model.logits(ids[0], ids[0][:2])
    else:
        wanted = theirs(torch.tensor(ids)).logits
        found, one = model.logits(torch.tensor(ids)), model.logits(ids[0])
    assert float((found - wanted).abs().max()) <= 1e-5
    assert torch.allclose(one, found[0], atol=1e-5)
    with pytest.raises(UserError, match=r"tokenizer.*logits\("):
        model("a text")
    with pytest.raises(UserError, match=r"\bids\b.* 0 .*52"):
        model.logits([5, 99], *([[1]] if name in ("marian", "bart") else []))


UNMARKED: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            **{k: v for k, v in GPT2.items() if k not in ("bos_token_id", "eos_token_id")}, activation_function="relu"
        )
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, bos_token_id=None, eos_token_id=WORDS)),
}


@pytest.mark.parametrize("name", UNMARKED)
@torch.no_grad()
def test_marks_outside_the_vocabulary_are_none(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As GPT-2's default ones in a small vocabulary: such a model never ends by itself."""
    torch.manual_seed(5)
    theirs = UNMARKED[name]().eval()
    theirs.save_pretrained(tmp_path / "in")
    model = read_folder(tmp_path / "in").model
    assert capsys.readouterr().err.count("start or end mark") == 1
    assert (model.start, model.end) == (-1, -1)
    assert float((model(TEXT) - theirs(TEXT).logits).abs().max()) <= 1e-5
    prompts = [[3, 7, 5], [9], [20, 21, 22, 23, 24, 25, 26]]
    mine = decode(model, Padded.of(prompts), Greedy(max_length=12), prefix=Padded.of(prompts))
    options = dict(do_sample=False, max_new_tokens=12, eos_token_id=None, pad_token_id=0)
    for ids, found in zip(prompts, mine, strict=True):
        said = theirs.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), **options)[0, len(ids) :]
        assert found[0].tokens == said.tolist()
        assert len(found[0].tokens) == 12
    write_folder(tmp_path / "out", model, kind_of(model.config))
    again = type(theirs).from_pretrained(tmp_path / "out").eval()
    assert float((again(TEXT).logits - theirs(TEXT).logits).abs().max()) <= 1e-5
    assert (again.config.bos_token_id, again.config.eos_token_id) == (None, None)
    assert read_folder(tmp_path / "out").model.config == model.config


def letters(folder: Path) -> None:
    """A tokenizer of letters, without marks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:WORDS]
    library = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    library.save(str(folder / "tokenizer.json"))


def test_a_model_without_marks_does_all_that_others_do(tmp_path: Path) -> None:
    torch.manual_seed(5)
    UNMARKED["gpt2"]().save_pretrained(tmp_path / "in")
    letters(tmp_path / "in")
    model = load(tmp_path / "in")
    assert model.engine.about.startswith("torch")
    whole = model("ABC", max_tokens=9)
    assert len(whole) == 9
    for options in ({"stop": [whole[3]]}, {"beam": 3}, {"temperature": 0.9, "seed": 1}):
        said = model("ABC", max_tokens=9, **options)
        assert said == whole[: whole.index(whole[3])] if "stop" in options else len(said) == 9
    assert "".join(model.generate("ABC", stream=True, max_tokens=9)) == whole
    (log_prob, tokens), (_, alone) = model.score(["ABCA", "A"])
    ids = model.tokenizer.encode(["ABCA"], spaced=False)[0]
    told = model.logits(ids).log_softmax(-1)
    assert (tokens, alone) == (3, 0), "the first is told from nothing"
    assert log_prob == pytest.approx(float(sum(told[i, ids[i + 1]] for i in range(3))), abs=1e-4)
    assert model.choose(["AB"], ["C", "D"], template="{input}{answer}", calibrated=False)[0][0].probability > 0.5
    assert model.attend("AB", "").maps
    for ask in (lambda: model(""), lambda: model.choose(["A"], ["B", "C"], template="{input}{answer}")):
        with pytest.raises(UserError, match=r"no start mark.*text"):
            ask()
    with pytest.raises(UserError, match="native.*end: none.*torch"):
        load(tmp_path / "in", engine="native")("A")
    export(model.loaded, "huggingface", tmp_path / "out")
    assert load(tmp_path / "out")("ABC", max_tokens=9) == whole
    export(model.loaded, "onnx", tmp_path / "onnx")
    with pytest.raises(UserError, match="start and end"):
        export(model.loaded, "ctranslate2", tmp_path / "ctranslate2")
