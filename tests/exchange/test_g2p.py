"""g2p-en's pronunciations, from its .npz without its package."""

import importlib.util
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.config import RecurrentConfig
from regard.tasks.folder import load_folder, save_model, save_tokenizers
from tests.exchange.g2p import LETTERS, PHONES, load_g2p
from tests.ready import ready

Arrays = dict[str, np.ndarray]
WORDS = ["regard", "a", "attention", "zyzzyva", "pneumonia", "sequence", "it's", "x" * 40, "two words"]


def made() -> Arrays:
    """Weights at random, of g2p-en's layout: embeddings of 5, states of 7, and words that like to end."""
    draw, shapes = np.random.default_rng(55), dict[str, tuple[int, ...]]()
    for side, words in (("enc", 29), ("dec", 74)):
        shapes |= {f"{side}_emb": (words, 5), f"{side}_w_ih": (21, 5), f"{side}_w_hh": (21, 7)}
        shapes |= {f"{side}_b_ih": (21,), f"{side}_b_hh": (21,)}
    shapes |= {"fc_w": (74, 7), "fc_b": (74,)}
    arrays = {name: draw.normal(0.0, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["fc_b"][3] += 4.0
    return arrays


def plain(arrays: Arrays, word: str) -> str:
    """The model by the equations of a GRU, in double precision, without anything of Regard but the names of phones."""
    arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def cell(side: str, token: int, h: np.ndarray) -> np.ndarray:
        taken = arrays[f"{side}_w_ih"] @ arrays[f"{side}_emb"][token] + arrays[f"{side}_b_ih"]
        kept = arrays[f"{side}_w_hh"] @ h + arrays[f"{side}_b_hh"]
        (r_in, z_in, n_in), (r_own, z_own, n_own) = np.split(taken, 3), np.split(kept, 3)
        reset, update = 1 / (1 + np.exp(-r_in - r_own)), 1 / (1 + np.exp(-z_in - z_own))
        return np.asarray((1 - update) * np.tanh(n_in + reset * n_own) + update * h)

    h = np.zeros(arrays["enc_w_hh"].shape[1])
    for token in [*(ord(c) - ord("a") + 3 if "a" <= c <= "z" else 1 for c in word), 2]:
        h = cell("enc", token, h)
    said, last = list[int](), 2
    while len(said) < 20:
        h = cell("dec", last, h)
        last = int((arrays["fc_w"] @ h + arrays["fc_b"]).argmax())
        if last == 3:
            break
        said.append(last)
    return " ".join(PHONES[i] for i in said if i > 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.savez(tmp_path / "made.npz", **made())  # type: ignore[arg-type]
    return tmp_path / "made.npz"


def test_phones_are_those_of_an_independent_run(path: Path, tmp_path: Path) -> None:
    model, wanted = ready(load_g2p(path)), [plain(made(), word) for word in WORDS]
    assert model(WORDS) == wanted
    assert len(set(wanted)) == len(WORDS), "outputs that are all alike would prove little"
    assert max(len(text.split()) for text in wanted) == 20 > min(len(text.split()) for text in wanted)

    loaded = load_g2p(path)
    assert loaded.tokenizers is not None
    save_model(tmp_path, loaded.model, loaded.task, loaded.search, loaded.max_length, {})
    save_tokenizers(tmp_path, loaded.tokenizers)
    again = load_folder(tmp_path)
    assert ready(again)(WORDS) == wanted
    assert (again.search, again.max_length) == (loaded.search, loaded.max_length)


def test_letters_and_phones_have_their_numbers(path: Path) -> None:
    both = load_g2p(path).tokenizers
    assert both is not None
    assert (len(LETTERS), len(PHONES)) == both.sizes == (29, 74)
    assert both.read(["abz", "ÉlAn"]) == [[3, 4, 28, 2], [7, 14, 3, 16, 2]]
    assert both.read(["</s>", "<pad>"]) == [[1, 1, 21, 1, 2], [1, 18, 3, 6, 1, 2]]
    assert both.target.encode(["HH AH0 L OW1", "  ZH\n AA0 ", ""]) == [[37, 10, 46, 51], [73, 4], []]
    assert both.target.encode(["</s> <s> Q"]) == [[1, 1, 1]]
    assert both.target.decode([2, 37, 10, 46, 51, 3]) == "HH AH0 L OW1"


PACKAGE = importlib.util.find_spec("g2p_en")


@pytest.mark.skipif(PACKAGE is None, reason="the package g2p_en is not installed")
def test_the_published_model_says_what_it_said() -> None:
    assert PACKAGE is not None
    assert PACKAGE.submodule_search_locations
    path = Path(PACKAGE.submodule_search_locations[0]) / "checkpoint20.npz"
    with np.load(path) as file:
        arrays = dict(file)
    model = ready(load_g2p(path))
    assert model("hello") == "HH EH1 L OW0"
    assert model(WORDS) == [plain(arrays, word) for word in WORDS]


def spoiled(**changed: Any) -> Callable[[Path], None]:
    """A file with other arrays; None leaves one out."""
    arrays = {name: array for name, array in {**made(), **changed}.items() if array is not None}
    return lambda path: np.savez(path, **arrays)


def packed(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("enc_emb.npy", bytes(200 << 20))


def lying(path: Path) -> None:
    """A header that promises more numbers than there are."""
    with zipfile.ZipFile(path, "w") as archive:
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 8), }\n"
        archive.writestr("enc_emb.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(64))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


NAN = np.full((74, 7), np.nan, np.float32)
BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no zip": (lambda path: path.write_bytes(b"PK" + bytes(3000)), "g2p-en .*zip"),
    "cut short": (cut, "g2p-en .*zip"),
    "packed": (packed, "packed"),
    "lying": (lying, "enc_emb.npy .*1099511627776.*enc_w_ih"),
    "too large": (lambda path: path.write_bytes(bytes((16 << 20) + 1)), " 16,777,216 "),
    "of something else": (spoiled(**dict.fromkeys(made()), weights=np.zeros(3, np.float32)), "fc_b .*weights"),
    "objects": (spoiled(fc_b=np.array([{}, []], object)), "fc_b.npy .*object"),
    "doubles": (spoiled(fc_b=np.zeros(74)), "fc_b.npy .*float64"),
    "all at once": (
        spoiled(fc_w=NAN, dec_b_hh=None, more=np.zeros(2, np.float32), enc_b_ih=np.zeros(20, np.float32)),
        "dec_b_hh .*more .*enc_b_ih .*20.*21.*fc_w .*finite",
    ),
    "a number": (spoiled(enc_w_hh=np.float32(3.0)), "enc_w_hh .*number.*3x1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_not_g2p_ens_is_refused_in_words(name: str, path: Path) -> None:
    spoil, message = BAD[name]
    spoil(path)
    began = time.perf_counter()
    with pytest.raises(UserError, match=message):
        load_g2p(path)
    print(f"\n{name}: refused after {1000 * (time.perf_counter() - began):.1f} ms")


def test_without_a_readout_no_table_is_shared() -> None:
    with pytest.raises(UserError, match="readout.*tied: output"):
        RecurrentConfig(readout=False, tied="output")
