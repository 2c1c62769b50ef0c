"""Readers with BERT below, out to transformers: the same numbers of padded batches, and the same ids of texts."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers
from torch import Tensor

from regard.attention.config import PositionConfig
from regard.data.config import TokenizerConfig
from regard.data.examples import Example
from regard.data.tokenizer import MASK, ForeignTokenizer, Tokenizer, Tokenizers
from regard.decode.config import Greedy
from regard.errors import UserError
from regard.exchange.export import export
from regard.exchange.huggingface import write_reader
from regard.models.build import build
from regard.models.config import BertConfig, ReaderConfig
from regard.tasks.folder import Loaded, load_folder, save_model, save_tokenizers
from regard.tasks.labelled.layout import Batch, Layout
from regard.tasks.labelled.start import reader_for
from regard.tasks.labelled.task import answers
from tests.tasks.toys import EXAMPLES, READERS, question_of, words

CLASSES: dict[str, Any] = {
    "classification": hf.BertForSequenceClassification,
    "pairs": hf.BertForSequenceClassification,
    "regression": hf.BertForSequenceClassification,
    "choice": hf.BertForMultipleChoice,
    "tagging": hf.BertForTokenClassification,
    "spans": hf.BertForQuestionAnswering,
}
SHAPES: list[dict[str, Any]] = [
    {"width": 12, "hidden": 20, "num_heads": 3, "num_layers": 2, "activation": "gelu"},
    {"width": 8, "hidden": 8, "num_heads": 1, "num_layers": 3, "activation": "relu", "segments": 3},
]


def bert(max_length: int = 30, **shape: Any) -> BertConfig:
    return BertConfig(**{**SHAPES[0], **shape}, position=PositionConfig(kind="learned", max_length=max_length))


def loaded(folder: Path, question: str, trunk: Any, spoken: Tokenizer | None = None, **settings: Any) -> Loaded:
    """A reader with weights at random, biases too, kept in a folder and read again."""
    spoken = spoken or words()
    given = ReaderConfig(trunk=trunk, **settings)
    config = reader_for(given, question_of(question), spoken, None, EXAMPLES[question])
    if isinstance(spoken, ForeignTokenizer):  # marks of others have numbers of their own
        marks = {"start": spoken.id_of("[CLS]"), "end": spoken.id_of("[SEP]"), "mask": spoken.id_of("[MASK]")}
        config = replace(config, trunk=replace(config.trunk, **marks))
    model = build(config, seed=2)
    draw = torch.Generator().manual_seed(6)
    for name, p in model.named_parameters():
        if name.endswith("bias") or name.startswith("head"):
            p.data.normal_(0.0, 0.5, generator=draw)
    folder.mkdir()
    save_tokenizers(folder, Tokenizers(spoken, spoken))
    save_model(folder, model, config.question, Greedy(), 24, {})
    return load_folder(folder)


def theirs(model: Any, batch: Batch, question: str) -> Tensor:
    """In the shape of ours."""
    kept = torch.arange(batch.items.tokens.shape[1])[None] < batch.items.lengths[:, None]
    given = {"input_ids": batch.items.tokens, "attention_mask": kept.long(), "token_type_ids": batch.items.segments}
    if question != "choice":
        told = model(**given)
        return torch.stack((told.start_logits, told.end_logits), -1) if question == "spans" else told.logits
    found = []
    for group in range(int(batch.groups[-1]) + 1):
        rows = {name: x[batch.groups == group][None] for name, x in given.items()}
        found.append(model(**rows).logits.flatten())
    return torch.cat(found)[:, None]


@pytest.mark.parametrize("shape", SHAPES, ids=["plain", "odd"])
@pytest.mark.parametrize("question", CLASSES)
@torch.no_grad()
def test_padded_batches_of_two_segments_give_the_same_numbers(
    question: str, shape: dict[str, Any], tmp_path: Path
) -> None:
    ours, out = loaded(tmp_path / "ours", question, bert(**shape)), tmp_path / "theirs"
    out.mkdir()
    said = write_reader(ours, out, [[1, 9, 8, 7, 2], [1, 40, 2]])
    assert said.startswith(f"{CLASSES[question].__name__}, checked: answers to 2 texts differ by ")
    config, model = ours.config, CLASSES[question].from_pretrained(out).eval()
    assert isinstance(config, ReaderConfig)
    stored = set(load_file(out / "model.safetensors"))
    assert stored == set(model.state_dict()), "nothing is missing there, and nothing is left over"
    layout = Layout(words(), config, 24)
    batch = Batch.of(list(layout.units(EXAMPLES[question])))
    assert len({*batch.items.lengths.tolist()}) > 2
    seen = ours.model(batch.items)
    found = theirs(model, batch, question)
    real = torch.arange(seen.shape[1])[None] < batch.items.lengths[:, None] if seen.dim() == 3 else slice(None)
    wanted = seen * config.spread + config.center
    assert wanted.shape == found.shape
    assert torch.allclose(wanted[real], found[real], atol=1e-5)
    if question == "regression":
        assert (config.center, config.spread) != (0.0, 1.0)
        numbers = [answer.said for answer in answers(ours.model, layout, EXAMPLES[question])]
        assert found.flatten().tolist() == pytest.approx(numbers, abs=1e-5)
    if question in ("classification", "tagging"):
        assert model.config.id2label == dict(enumerate(config.labels))


def test_a_mean_is_no_matter_where_tokens_are_told(tmp_path: Path) -> None:
    for question in ("tagging", "spans"):
        ours, out = loaded(tmp_path / question, question, bert(), pooling="mean"), tmp_path / f"{question}-out"
        out.mkdir()
        assert "checked" in write_reader(ours, out, [[1, 9, 2]])


@pytest.mark.parametrize(
    ("trunk", "settings", "told"),
    [
        (bert(), {"pooling": "mean"}, "model.pooling .*mean.* first"),
        (bert(), {"symmetric": True}, "pairs.* orders"),
        (READERS["gpt"]["trunk"], {}, "gpt .*BERT"),
        (READERS["recurrent_text"]["trunk"], {}, "recurrent_text .*BERT"),
        (READERS["elmo"]["trunk"], {}, "elmo .*BERT"),
        (BertConfig(**SHAPES[0]), {}, "position"),
        (bert(placement="pre"), {}, "placement"),
    ],
    ids=["mean", "symmetric", "gpt", "recurrent", "elmo", "sinusoid", "pre"],
)
def test_what_they_have_no_model_for_is_refused(
    trunk: Any, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    ours = loaded(tmp_path / "ours", "pairs", trunk, **settings)
    with pytest.raises(UserError, match=told):
        export(ours, "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for kind in ("onnx", "ctranslate2"):
        with pytest.raises(UserError, match=f"`to` {kind} .*`to` huggingface"):
            export(ours, kind, tmp_path / "out")


def wordpiece() -> Tokenizer:
    vocabulary = ["[PAD]", "the", "cat", "##s", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "sat", "on", "mat", "a", "dog"]
    library = Library(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    controls = {i: word for i, word in enumerate(vocabulary) if word.startswith("[")}
    return ForeignTokenizer(json.loads(library.to_str()), controls, len(vocabulary), ([6], [5]))


def of_an_encoder() -> Tokenizer:
    """One that knows [MASK], which readers never see."""
    return Tokenizer.train(iter(["the cat sat on the mat", "a dog"] * 2), TokenizerConfig(vocabulary=300), [MASK])


SPOKEN = {"bpe": words, "wordpiece": wordpiece, "encoder's": of_an_encoder}


@pytest.mark.parametrize("spoken", [make() for make in SPOKEN.values()], ids=SPOKEN.keys())
@torch.no_grad()
def test_texts_and_pairs_become_the_same_ids_and_answers_there(spoken: Tokenizer, tmp_path: Path) -> None:
    ours = loaded(tmp_path / "ours", "pairs", bert(60), spoken)
    assert "checked" in export(ours, "huggingface", tmp_path / "out", ["the cat sat"])
    config = ours.config
    assert isinstance(config, ReaderConfig)
    tokenizer, model = hf.AutoTokenizer.from_pretrained(tmp_path / "out"), hf.BertForSequenceClassification
    read = model.from_pretrained(tmp_path / "out").eval()
    layout = Layout(spoken, config, 50)
    for texts in (("the cat sat on the mat",), ("the cats", "a dog sat"), ("mat", "on the dog")):
        ((row,),) = layout.units([Example(texts, None, 1)])
        given = tokenizer(*texts, return_tensors="pt")
        assert given["input_ids"][0].tolist() == row.ids, texts
        assert given["token_type_ids"][0].tolist() == Batch.of([[row]]).items.segments[0].tolist()
        if len(texts) == 2:
            (answer,) = answers(ours.model, layout, [Example(texts, None, 1)])
            found = read(**given).logits[0].softmax(-1)
            assert {label: pytest.approx(p, abs=1e-5) for label, p in answer.others} == {
                read.config.id2label[i]: p for i, p in enumerate(found.tolist())
            }


def test_new_words_stay_at_home(tmp_path: Path) -> None:
    ours = loaded(tmp_path / "ours", "pairs", bert(), words().extended(["zorblax"]))
    with pytest.raises(UserError, match=" 1 new word"):
        export(ours, "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()
