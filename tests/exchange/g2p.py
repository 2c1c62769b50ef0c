"""g2p-en's .npz: a GRU that reads the letters of an English word, and a GRU that says its phones."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from torch import Tensor

from regard.data.tokenizer import ForeignTokenizer, Tokenizers
from regard.decode.config import Beam
from regard.errors import UserError
from regard.exchange.weights import said
from regard.files import open_regular
from regard.models.build import MODELS, shapes_of
from regard.models.config import RecurrentConfig
from regard.tasks.folder import Loaded, loaded_of

LETTERS = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"  # each with no stress, the first or the second
OTHERS = "B CH D DH F G HH JH K L M N NG P R S SH T TH UW V W Y Z ZH"
STRESSED = [vowel + stress for vowel in VOWELS.split() for stress in "012"]
PHONES = ("<pad>", "<unk>", "<s>", "</s>", *sorted([*STRESSED, *OTHERS.split()]))
MOST_PHONES = 20  # that g2p-en says of a word, the end mark among them
MOST_LETTERS = 64
LARGEST, MOST_MEMBERS = 16 << 20, 64  # bytes of a file, and arrays in it

NAMES = {"enc_emb": "source_embedding.table", "dec_emb": "target_embedding.table"}
NAMES |= {
    f"{side}_{leaf}_{part}": f"{ours}.layers.0.{name}_{part}_l0"
    for side, ours in (("enc", "encoder"), ("dec", "decoder"))
    for leaf, name in (("w", "weight"), ("b", "bias"))
    for part in ("ih", "hh")
}
NAMES |= {"fc_w": "head.table", "fc_b": "head.bias"}


def read_g2p(path: Path) -> tuple[RecurrentConfig, dict[str, Tensor], Tokenizers]:
    """Settings, weights under our names, and letters and phones; every problem is told at once."""
    found, problems = _arrays(path)
    embedding, width = ((1, *found[name].shape)[-1] if name in found else 1 for name in ("enc_emb", "enc_w_hh"))
    config = RecurrentConfig(embedding=max(embedding, 1), width=max(width, 1), cell="gru", bidirectional=False)
    config = replace(config.sized(len(LETTERS), len(PHONES)), attention=None, bridge="copy", readout=False)
    config = replace(config, start=PHONES.index("<s>"), end=PHONES.index("</s>"))
    wanted = shapes_of(config)
    problems += [f"{name} is not there" for name in NAMES if name not in found]
    problems += [f"{name} is unknown" for name in found if name not in NAMES]
    for name, array in found.items():
        shape = wanted.get(NAMES.get(name, ""), array.shape)
        if array.shape != shape:
            problems.append(f"{name} is {said(array.shape)}, expected is {said(shape)}")
        if not np.isfinite(array).all():
            problems.append(f"{name} holds numbers that are not finite")
    if problems:
        raise UserError(f"{path}: is no model of g2p-en: {'; '.join(problems)}")
    return config, {NAMES[name]: torch.tensor(array) for name, array in found.items()}, _tokenizers()


def _arrays(path: Path) -> tuple[dict[str, NDArray[np.float32]], list[str]]:
    """By name, and what is wrong with others; numpy's own reader may unpickle, so it is not asked."""
    found, problems = dict[str, NDArray[np.float32]](), list[str]()
    try:
        with open_regular(path, LARGEST) as whole, zipfile.ZipFile(whole) as archive:
            size = os.fstat(whole.fileno()).st_size
            members = archive.infolist()
            packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
            if packed or len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > size:
                raise ValueError("its arrays are packed, or more than the file can hold")
            for member in members:
                with archive.open(member) as file:
                    try:
                        found[member.filename.removesuffix(".npy")] = _array(file)
                    except (ValueError, OverflowError) as error:
                        problems.append(f"{member.filename} cannot be read ({error})")
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: is no model of g2p-en ({error})") from error
    return found, problems


def _array(file: IO[bytes]) -> NDArray[np.float32]:
    if npy.read_magic(file) != (1, 0):
        raise ValueError("another version of .npy")
    shape, by_columns, kind = npy.read_array_header_1_0(file, max_header_size=1000)
    if kind != np.dtype("<f4") or by_columns:
        raise ValueError(f"of {kind}{' by columns' if by_columns else ''}, and only float32 by rows is read")
    return np.frombuffer(file.read(), kind).reshape(shape)


def _tokenizers() -> Tokenizers:
    """Letters without accents and capitals, each a token; phones with spaces between."""
    reads = Library(models.WordLevel({letter: i for i, letter in enumerate(LETTERS)}, unk_token="<unk>"))
    plain = [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    reads.normalizer = normalizers.Sequence(plain)
    reads.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    names = [name if name.startswith("<") else f"▁{name}" for name in PHONES]
    says = Library(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    says.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")])
    says.pre_tokenizer = pre_tokenizers.Metaspace()
    reads.decoder, says.decoder = decoders.Fuse(), decoders.Metaspace()
    sides = []
    for library, words, after in ((reads, LETTERS, [LETTERS.index("</s>")]), (says, PHONES, [])):
        controls = {i: word for i, word in enumerate(words) if word.startswith("<")}
        sides.append(ForeignTokenizer(json.loads(library.to_str()), controls, len(words), ([], after)))
    return Tokenizers(*sides)


def load_g2p(path: Path) -> Loaded:
    """The model in g2p-en's file."""
    config, weights, tokenizers = read_g2p(path)
    model = MODELS[type(config)](config)
    model.load_state_dict(weights)
    return loaded_of("translation", Beam(size=1, max_length=MOST_PHONES), model, tokenizers, MOST_LETTERS, path)
