"""What int8 costs in quality, and which part of it costs what.

    python -m bench.int8 MODEL.. --source FILE --target FILE [--metric bleu] [--lines 1000] [--parts 100]

Each MODEL is the folder of a Transformer that translates. The first table has the native engine in float32 and in int8,
greedy and with beam 5: the score, its difference from float32 with p by paired bootstrap, outputs that reached the
limit of tokens, tokens of an output, and outputs that are the same as in float32. The second rounds weights, or the
inputs of some layers, in PyTorch, and reads again what float32 says greedily to the first lines: how far the
distribution of the next word moves (KL divergence, in thousandths of a nat), how often its likeliest word changes, and
what the log-probability of the end mark gains, on average and where it is the likeliest word.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from regard.decode.config import Beam, Greedy, Hypothesis, Search
from regard.engine.native import NativeEngine
from regard.engine.prepare import prepared_of
from regard.metrics.resample import paired_bootstrap
from regard.nn.embed import OutputHead
from regard.shapes import Padded
from regard.tasks.folder import Loaded, load_folder

LIMIT = 100  # tokens of an output
SEARCHES: dict[str, Search] = {"greedy": Greedy(max_length=LIMIT), "beam 5": Beam(size=5, max_length=LIMIT)}
PARTS: dict[str, Callable[[str], bool]] = {
    "everything": lambda name: True,
    "the output layer": lambda name: name == "head",
    "the encoder": lambda name: name.startswith("encoder"),
    "the decoder": lambda name: name.startswith("decoder"),
    "self-attention": lambda name: "self_attention" in name,
    "cross-attention": lambda name: "cross_attention" in name,
    "feed-forward, first": lambda name: name.endswith(("up", "gate")),
    "feed-forward, second": lambda name: name.endswith("down"),
}


def rounded(x: Tensor) -> Tensor:
    """Each row to 255 levels, by its largest number, as the native engine does."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (x / scale).round() * scale


@contextmanager
def in_bytes(model: Any, part: Callable[[str], bool], *, weights: bool, inputs: bool) -> Iterator[None]:
    """The layers of that part with rounded weights, rounded inputs, or both."""
    hooks, before = [], {name: p.detach().clone() for name, p in model.named_parameters()}
    matrices = {}  # by identity: a table that is shared is rounded once
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | OutputHead) and part(name):
            matrix = module.weight if isinstance(module, nn.Linear) else module.table
            matrices[id(matrix)] = matrix
            if inputs:
                hooks.append(module.register_forward_pre_hook(lambda _, given: (rounded(given[0]), *given[1:])))
    for matrix in matrices.values() if weights else ():
        matrix.data = rounded(matrix.data)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for name, p in model.named_parameters():
            p.data = before[name]


def decoded(engine: NativeEngine, loaded: Loaded, sources: list[list[int]], search: Search) -> tuple[Any, list[str]]:
    assert loaded.tokenizers is not None
    best: list[Hypothesis] = [hypotheses[0] for hypotheses in engine.decode(sources, search)]
    end = engine.model.settings.end
    return best, [loaded.tokenizers.target.decode([token for token in h.tokens if token != end]) for h in best]


@torch.no_grad()
def next_words(model: Any, sources: list[list[int]], outputs: list[Hypothesis]) -> Tensor:
    """Log-probabilities (tokens, V) of the next word, all along the outputs."""
    rows = []
    for source, h in zip(sources, outputs, strict=True):
        before = torch.tensor([[model.start, *h.tokens[:-1]]])
        rows.append(model(Padded.of([source]), before)[0].log_softmax(-1))
    return torch.cat(rows)


def tell_parts(table: Table, name: str, loaded: Loaded, sources: list[list[int]], outputs: list[Hypothesis]) -> None:
    model = loaded.model
    exact = next_words(model, sources, outputs)
    likeliest, ends = exact.argmax(-1), exact.argmax(-1) == model.end
    trials = {"weights of everything": (PARTS["everything"], True, False)}
    trials |= {f"inputs of {part}": (belongs, False, True) for part, belongs in PARTS.items()}
    trials["all of int8"] = PARTS["everything"], True, True
    for title, (belongs, weights, inputs) in trials.items():
        with in_bytes(model, belongs, weights=weights, inputs=inputs):
            moved = next_words(model, sources, outputs)
        divergence = (exact.exp() * (exact - moved)).sum(-1).mean()
        changed = (moved.argmax(-1) != likeliest).double().mean()
        gain = (moved - exact)[:, model.end]
        figures = (
            f"{1000 * divergence:.2f}",
            f"{100 * changed:.2f} %",
            f"{gain.mean():+.4f}",
            f"{gain[ends].mean():+.4f}",
        )
        table.add_row(name, title, *figures)
        print(name, title, *figures, sep=" | ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--metric", default="bleu")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--parts", type=int, default=0, help="lines for the second table; 0 for none")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    quality = Table("model", "search", "precision", "score", "difference", "cut", "tokens", "same", box=MARKDOWN)
    parts = Table("model", "in 8 bits", "KL", "word changes", "end mark", "where it ends", box=MARKDOWN)
    texts, references = (path.read_text("utf-8").splitlines()[: asked.lines] for path in (asked.source, asked.target))
    for folder in asked.models:
        loaded = load_folder(folder)
        loaded.model.eval()
        assert loaded.tokenizers is not None
        sources = loaded.tokenizers.read(texts)
        engines = {
            "float32": NativeEngine(prepared_of(loaded.model)),
            "int8": NativeEngine(prepared_of(loaded.model, small=True)),
        }
        for title, search in SEARCHES.items():
            exact = decoded(engines["float32"], loaded, sources, search)
            if title == "greedy" and asked.parts:
                tell_parts(parts, folder.name, loaded, sources[: asked.parts], exact[0][: asked.parts])
            for precision, engine in engines.items():
                best, said = exact if precision == "float32" else decoded(engine, loaded, sources, search)
                pair = paired_bootstrap(exact[1], said, references, asked.metric)
                cut = sum(h.tokens[-1] != engine.model.settings.end for h in best)
                figures = (
                    f"{pair.second:.2f}",
                    "" if precision == "float32" else f"{pair.difference:+.2f}, p {pair.p_value:.2f}",
                    str(cut),
                    f"{sum(len(h.tokens) for h in best) / len(best):.1f}",
                    "" if precision == "float32" else str(sum(a == b for a, b in zip(exact[1], said, strict=True))),
                )
                quality.add_row(folder.name, title, precision, *figures)
                print(folder.name, title, precision, *figures, sep=" | ", flush=True)
    for table in (quality, parts):
        if table.rows:
            Console(width=120).print(table)


if __name__ == "__main__":
    main()
