"""Real tokenizers and weights that other tools made."""

import struct
from pathlib import Path

import numpy as np
import pytest

from regard.data.tokenizer import Tokenizer
from regard.decode.config import Greedy
from regard.decode.search import decode
from regard.exchange.words import read_tokenizer
from regard.shapes import Padded
from tests.exchange.llama2c import stories

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="there is no ../shared/data")


@needs_data
def test_gpt2s_tokenizer_gives_the_ids_it_must(tmp_path: Path) -> None:
    folder = DATA / "tokenizers" / "gpt2"
    ours = read_tokenizer(folder, 50257, {50256: "<|endoftext|>"})
    assert ours is not None
    texts = (folder / "cases.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    wanted = [[int(i) for i in line.split()] for line in (folder / "cases.out").read_text().split("\n")]
    assert len(texts) == len(wanted) > 40
    assert ours.encode(texts) == wanted
    assert [ours.decode(ids) for ids in wanted] == texts
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(texts) == wanted
    assert 50256 not in again.encode(["a <|endoftext|> in a text stays text"])[0]
    assert again.pieces([50256, 995]) == ["<|endoftext|>", "▁world"]


@needs_data
def test_stories_are_told_as_an_independent_run_of_the_binary_tells_them() -> None:
    folder = DATA / "weights" / "stories260K"
    loaded = stories(folder)
    model, config, tokenizer = loaded.model, loaded.config, loaded.tokenizers.target
    prompt = [config.start, *tokenizer.encode(["Once upon a time"])[0]]
    one = Padded.of([prompt])
    ((found,),) = decode(model, one, Greedy(max_length=150), prefix=one)
    assert (loaded.max_length, found.tokens) == (512, plain_llama(folder / "stories260K.bin", prompt, 150))
    story = tokenizer.decode([*prompt, *found.tokens])
    assert story.startswith("Once upon a time, there was a little girl named Lily. She loved to play outside")
    for text in ("Lily's  two spaces", "snow ☃ man", "", "\n"):
        assert tokenizer.decode(tokenizer.encode([text])[0]) == text


def plain_llama(path: Path, prompt: list[int], count: int) -> list[int]:
    """The binary run in numpy, by its documented layout, a token at a time, without anything of Regard."""
    raw = path.read_bytes()
    dim, hidden, layers, heads, kv_heads, words, _ = struct.unpack("<7i", raw[:28])
    numbers, at = np.frombuffer(raw, "<f4", offset=28).astype(np.float64), 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        size = int(np.prod(shape))
        at += size
        return numbers[at - size : at].reshape(shape)

    size = dim // heads
    table, norm_1 = take(words, dim), take(layers, dim)
    wq, wk, wv = take(layers, dim, dim), take(layers, kv_heads * size, dim), take(layers, kv_heads * size, dim)
    wo, norm_2 = take(layers, dim, dim), take(layers, dim)
    w1, w2, w3 = take(layers, hidden, dim), take(layers, dim, hidden), take(layers, hidden, dim)
    last = take(dim)

    def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(weight * x / np.sqrt((x * x).mean() + 1e-5))

    def turn(x: np.ndarray, position: int) -> np.ndarray:
        pairs = x.reshape(-1, size // 2, 2)
        angles = position / 10000.0 ** (np.arange(0, size, 2) / size)
        cos, sin = np.cos(angles), np.sin(angles)
        a, b = pairs[..., 0], pairs[..., 1]
        return np.stack((a * cos - b * sin, a * sin + b * cos), -1).reshape(-1, size)

    keys: list[list[np.ndarray]] = [[] for _ in range(layers)]
    values: list[list[np.ndarray]] = [[] for _ in range(layers)]
    said, token = list[int](), prompt[0]
    for position in range(len(prompt) + count - 1):
        x = table[token]
        for i in range(layers):
            h = norm(x, norm_1[i])
            q = turn(wq[i] @ h, position)
            keys[i].append(turn(wk[i] @ h, position))
            values[i].append((wv[i] @ h).reshape(-1, size))
            group = heads // kv_heads
            seen = []
            for head in range(heads):
                scores = np.array([k[head // group] @ q[head] for k in keys[i]]) / np.sqrt(size)
                weights = np.exp(scores - scores.max())
                seen.append((weights / weights.sum()) @ np.array([v[head // group] for v in values[i]]))
            x = x + wo[i] @ np.concatenate(seen)
            h = norm(x, norm_2[i])
            gate = w1[i] @ h
            x = x + w2[i] @ (gate / (1 + np.exp(-gate)) * (w3[i] @ h))
        token = int((table @ norm(x, last)).argmax())
        if position + 1 < len(prompt):
            token = prompt[position + 1]
        else:
            said.append(token)
    return said
