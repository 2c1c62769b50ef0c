"""Folders that are wrong, by accident or on purpose: every problem told, nothing run, little time and memory."""

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.data.parts import no_panic
from regard.decode.filters import Forbid
from regard.engine.prepare import read_arrays
from regard.errors import UserError
from regard.exchange.folders import placed
from regard.exchange.huggingface import read_folder, write_folder
from regard.models.build import build
from regard.models.presets import llama
from regard.tasks.folder import load_folder
from regard.tasks.translation.runtime import Translator
from tests.fixtures.make import MODELS


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    model = build(replace(llama(), vocabulary=11, width=8, hidden=12, num_heads=2, num_kv_heads=1, num_layers=1))
    write_folder(folder, model, "llama")
    return folder


def settings(folder: Path, **changed: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)


def in_shards(folder: Path, second: str) -> None:
    """Two files by an index, of which the second goes by another name."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    save_file({name: tensors[name] for name in names[:3]}, folder / "a.safetensors")
    save_file({name: tensors[name] for name in names[3:]}, folder / "b.safetensors")
    index = {name: "a.safetensors" if name in names[:3] else second for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("bomb-went-off"),)


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))


def pickle_under_a_good_name(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))


def huge_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")


def truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])


def with_nan(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"][0] = torch.nan
    tensors["model.layers.0.mlp.up_proj.weight"][0] = torch.inf


def misfit(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"] = torch.ones(9)
    del tensors["model.layers.0.mlp.up_proj.weight"]
    tensors["model.layers.7.mlp.up_proj.weight"] = torch.ones(2, 2)


def as_integers(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"] = torch.ones(8, dtype=torch.int64)


def in_place(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


CHAIN: dict[str, Any] = {
    "type": "Sequence",
    "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}] * 40,
}
RUNAWAY = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
ASTRAY = {"type": "Precompiled", "precompiled_charsmap": "AAQAAAAA"}


def tokenizer(folder: Path, normalizer: Any, model: Any = None) -> None:
    model = model or {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    content = {"version": "1.0", "added_tokens": [], "normalizer": normalizer, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(content))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json"),
    "config that is no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json.*Expecting property"),
    "config that is a list": (lambda f: (f / "config.json").write_text("[]"), "config.json.*settings"),
    "unknown kind": (lambda f: settings(f, model_type="mamba"), "config.json.*model_type 'mamba'.*gpt2, llama"),
    "code by name": (lambda f: settings(f, auto_map={"AutoModel": "modeling.Evil"}), "config.json.*auto_map"),
    "a lying size": (lambda f: settings(f, hidden_size=1 << 18, vocab_size=1 << 22), "weights.* GB"),
    "a billion layers": (lambda f: settings(f, num_hidden_layers=1 << 30), "num_layers 1,073,741,824 .* 256"),
    "no numbers": (lambda f: settings(f, hidden_size="8", vocab_size=None), "vocab_size .*hidden_size .*'8'"),
    "missing shard": (lambda f: in_shards(f, "c.safetensors"), r"c\.safetensors"),
    "shard outside": (lambda f: in_shards(f, "../b.safetensors"), r"'\.\./b\.safetensors'"),
    "shard by its place": (lambda f: in_shards(f, "/etc/passwd"), "'/etc/passwd'"),
    "pickle": (as_pickle, "pytorch_model.bin.*pickle.*save_pretrained"),
    "pickle inside": (pickle_under_a_good_name, "model.safetensors .*header"),
    "huge header": (huge_header, "model.safetensors .*header"),
    "cut short": (truncated, "model.safetensors .*header"),
    "not finite": (lambda f: weights(f, with_nan), "(?s)up_proj.*finite.*norm.*finite"),
    "misfit": (
        lambda f: weights(f, misfit),
        "(?s)0.mlp.up_proj.weight .* 12x8.*7.mlp.* 2x2.*norm.weight .*9.* 8",
    ),
    "integers": (lambda f: weights(f, as_integers), "model.norm.weight .*I64.*F64, F32"),
    "a fraction of a width": (lambda f: settings(f, hidden_size=8.5), r"hidden_size .*8\.5"),
    "no length": (lambda f: settings(f, max_position_embeddings=float("inf")), "max_position_embeddings .*inf"),
    "a word beyond all": (lambda f: settings(f, bad_words_ids=[[float("inf")]]), "bad_words_ids .*infinity"),
    "a pipe": (lambda f: in_place(f / "config.json", os.mkfifo), "config.json.*regular"),
    "endless zeros": (lambda f: in_place(f / "model.safetensors", zeros), "model.safetensors.*regular"),
    "a sparse giant": (lambda f: os.truncate(f / "config.json", 6 << 30), "config.json.* 1,048,576 "),
    "a chain of normalisers": (lambda f: tokenizer(f, CHAIN), "normalizer .*40 .*12 "),
    "a chain in a chain": (lambda f: tokenizer(f, {**CHAIN, "normalizers": [CHAIN]}), "normalizer.*'Sequence'.*NFKC"),
    "a replacement that grows": (lambda f: tokenizer(f, CHAIN["normalizers"][0]), "'a'.* longer"),
    "a pattern that runs away": (lambda f: tokenizer(f, RUNAWAY), r"pattern '\(a\+\)\+\$'"),
    "a map that leads astray": (lambda f: tokenizer(f, ASTRAY), "tokenizer.*buffer"),
    "a model without end": (lambda f: tokenizer(f, None, {"type": "Unigram", "vocab": [["", 0]]}), "character"),
}  # fmt: skip


def test_what_is_sound_is_read_in_one_file_or_in_shards(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "shards")
    in_shards(tmp_path / "shards", "b.safetensors")
    one, two = (read_folder(folder).model for folder in (sound, tmp_path / "shards"))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_folder_is_refused_in_words(name: str, sound: Path, tmp_path: Path, monkeypatch: Any) -> None:
    spoil, message = BAD[name]
    folder = tmp_path / "folder"
    shutil.copytree(sound, folder)
    spoil(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        read_folder(folder)
    assert not (tmp_path / "bomb-went-off").exists()


def test_a_folder_of_ours_that_lies_is_refused_in_words(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"task": ["a"]}, r"\['a'\].*translation, lm"),
        ({"max_length": 10**300}, "max_length .* 1,048,576"),
        ({"search": {"max_ratio": 1e300}}, "max_ratio .* 1,000,000,000"),
        ({"search": {"length_penalty": float("nan")}}, "length_penalty nan .*-10 .*10"),
        ({"model": {"vocabulary": 10**9}}, "vocabulary 1,000,000,000 .* 4,194,304"),
        ({"model": {"num_layers": 10**6}}, "num_layers 1,000,000 .*1 .*256"),
    ]
    for number, (change, message) in enumerate(cases):
        folder = tmp_path / str(number)
        shutil.copytree(MODELS / "gpt", folder)
        stored = json.loads((folder / "config.json").read_text())
        for key, value in change.items():
            stored[key] = {**stored[key], **value} if isinstance(value, dict) else value
        (folder / "config.json").write_text(json.dumps(stored))
        with pytest.raises(UserError, match=message):
            load_folder(folder)


def test_weights_of_other_kinds_or_without_numbers_are_refused(tmp_path: Path) -> None:
    for kind, shape, size in (("F8_E4M3", [4], 4), ("F32", [0, 1 << 62], 0)):
        header = json.dumps({"a": {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}).encode()
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
        with pytest.raises(UserError, match=r"a.safetensors.* (F8_E4M3|F32) \[|[Oo]verflow"):
            read_arrays(tmp_path / "a.safetensors", ("F32",))


def test_a_panic_of_the_library_is_a_user_error() -> None:
    class PanicException(BaseException):
        pass

    with pytest.raises(UserError, match=r"^the file .*index out of bounds"), no_panic("the file"):
        raise PanicException("index out of bounds")


def test_words_that_a_model_has_not_need_not_be_forbidden() -> None:
    assert Forbid((1, 10**8)).apply(torch.zeros(1, 3), torch.zeros(1, 0)).tolist() == [[0, -torch.inf, 0]]


def test_a_character_longer_than_all_that_a_model_learned_from_is_not_cut_for_ever() -> None:
    class Short:
        _split, _read, tag, max_length, front = Translator._split, Translator._read, None, 2, None

        class tokenizers:  # noqa: N801
            read = staticmethod(lambda texts, tag: [[0] * 3 * len(text) for text in texts])

    split = Short()._split("ab c", [0] * 12)  # type: ignore[arg-type]
    assert [text for text, _ in split] == ["a", "b", "c"]


def test_a_name_that_no_file_can_have_is_a_user_error() -> None:
    with pytest.raises(UserError, match="aaa.*File name too long"):
        placed(Path("1" + "a" * 300))
