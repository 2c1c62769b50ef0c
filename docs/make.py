"""Makes the pictures of the documents, `make docs`: each from Regard's own tensors, the same bytes at every call.

All is float64 and drawn by NumPy, whose numbers no processor changes, so that another machine gives the same shades.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Mask, MultiheadAttention, Site, Trace, attend_with_weights
from regard.attention.config import AttentionConfig, PositionConfig
from regard.attention.encoding import Sinusoid
from regard.attention.position import input_position, layer_position, steps
from regard.attention.score import SCORES, Dot
from regard.decode.config import Beam
from regard.decode.search import decode
from regard.look.charts import curve
from regard.look.figure import Picture
from regard.look.labels import drawing, markup, pixels
from regard.models.build import build
from regard.models.config import GptConfig, TransformerConfig
from regard.rng import Key
from regard.serve.config import Limits
from regard.serve.desk import Pace
from regard.shapes import Padded
from regard.tasks.config import TrainConfig
from regard.training.checkpoint import TrainState, Weights
from regard.training.distributed import ALONE
from regard.training.optimizer import Optimizer

GAP, FONT, BLUE, RED, GREY = 12, 12, "#08306b", "#c62828", "#9a9a9a"


def soft_lookup() -> str:
    words, keys, panels = ["apple", "pear", "plum", "fig"], torch.eye(4, dtype=torch.float64), []
    queries = torch.cat((keys, keys[1:3].mean(0)[None], 0 * keys[:1]))
    for sharp in (1, 3, 30):
        q, k = sharp * queries[None, None], keys[None, None]
        weights = attend_with_weights(q, k, k, score=Dot()).weights[0, 0]
        panels.append(heat(f"keys × {sharp}", weights, [*words, "pear or plum", "none of them"], words))
    return sheet("who asks for a row's word gets the columns' values in these shares (black: none, white: all)", panels)


def scores() -> str:
    q, k, panels = drawn("queries", 1, 1, 4, 16), drawn("keys", 1, 1, 6, 16), []
    for name in ("dot", "scaled_dot", "bilinear", "additive", "mlp"):
        score = filled(SCORES[name](16, 16, (16, 16) if name == "mlp" else ()))
        weights = attend_with_weights(q, k, k, score=score).weights[0, 0]
        panels.append(heat(name, weights, numbers(4, "q"), numbers(6, "k")))
    return sheet("the same random queries and keys of width 16 under each score", panels)


def masks() -> str:
    causal, size, panels = Mask.causal(), 8, []
    shown = {
        "causal": causal,
        "causal, 3 new queries": causal,
        "padding([5])": Mask.padding([5]),
        "window(3)": Mask.window(3),
        "causal & window(3)": causal & Mask.window(3),
        "window(2) | globals": Mask.window(2) | Mask.globals([1, 0, 0, 0, 0, 0, 0, 0]),
        "causal & segments": causal & Mask.segments([[0, 0, 0, 1, 1, 2, 2, 2]]),
        "prefix([3])": Mask.prefix([3]),
        "permutation": Mask.permutation([3, 0, 6, 1, 7, 4, 2, 5]),
    }
    for name, mask in shown.items():
        count = 3 if "3 new" in name else size
        same = torch.zeros(1, 1, size, 2)  # all keys answer alike, and what is left is the mask
        seen = attend_with_weights(same[:, :, :count], same, same, mask=mask).weights[0, 0] > 0
        panels.append(heat(name, seen.double(), numbers(size)[-count:], numbers(size)))
    return sheet("8 keys; white may be attended to; rows are queries, by the place where they sit", panels)


def positions() -> str:
    panels, word = [], 1.5 * drawn("word", 12).expand(1, 8, 8, 12)
    for layout in ("interleaved", "halves"):
        table = Sinusoid(12, layout)(torch.arange(12)[None])[0]
        panels.append(heat(f"sinusoid, {layout}", (1 + table) / 2, numbers(12), numbers(12)))
    places = steps(8, 8, None, word.device)
    for kind in ("none", "sinusoid", "shaw", "rotary", "alibi"):
        config = PositionConfig(kind=kind, clip=3)
        position = filled(layer_position(config, 12, 8, layer=0))
        x = input_position(config, 12).embed(word, places[0])
        q, k = position.queries(x, places[0]), position.keys(x, places[1])
        weights = attend_with_weights(q, k, k, bias=position.bias(q, *places)).weights[0, 0]
        panels.append(heat(kind, weights / weights.max(), numbers(8), numbers(8)))
    return sheet("above: a row for each step; below: where the same word, said 8 times, looks", panels, (2, 3, 2))


def heads() -> str:
    text, size = list("abracadabra"), 11
    one, zero = torch.eye(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    letters = torch.stack([one[sorted({*text}).index(letter)] for letter in text])
    x = torch.cat((letters, one), 1)[None]  # of each step its letter, then its place
    shape = AttentionConfig(width=2 * size, num_heads=4, num_kv_heads=2, own_head_width=size, bias=False)
    attention, trace = MultiheadAttention(shape).double(), Trace()
    before, first = one.roll(-1, 0).tril(1).triu(1), zero.index_fill(0, torch.tensor(0), 1.0)
    asks = {"same letter": (one, zero), "other letters": (-one, zero)}
    asks |= {"one before": (zero, before), "the first": (zero, first)}
    attention.get_parameter("to_q.weight").data = 30 * torch.cat([torch.cat(pair, 1) for pair in asks.values()])
    attention.get_parameter("to_k.weight").data = torch.eye(2 * size, dtype=torch.float64)
    attention(x, attention.project_kv(x), site=Site(trace=trace))
    panels = [heat(f"{i}: {name}", trace.maps()[""][0, i], text, text) for i, name in enumerate(asks)]
    return sheet("weights set by hand: 0 and 1 share keys (the letter), 2 and 3 others (the place)", panels, (2, 2))


def transformer() -> str:
    shape = TransformerConfig(width=32, hidden=64, num_heads=1, encoder_layers=1, decoder_layers=1)
    model = filled(build(shape.sized(12, 12)))

    def loss(step: int) -> Tensor:
        words = torch.from_numpy(Key(0, ("words", step)).generator().integers(3, 12, (32, 5)))
        said = F.pad(F.pad(words.flip(1), (1, 0), value=1), (0, 1), value=2)
        logits = model(Padded(words, torch.full((32,), 5)), said[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), said[:, 1:].flatten())

    train(model, loss, 250, 3e-3)  # at thrice the rate, rounding would grow into another picture
    trace, source, said = Trace(), list("abcde"), [*"edcba", "end"]
    model(Padded.of([[3, 4, 5, 6, 7]]), torch.tensor([[1, 7, 6, 5, 4, 3]]), Site(trace=trace))
    axes = {"encoder.0.self": (source, source), "decoder.0.self": (said, ["‹s›", *said[:-1]])}
    axes["decoder.0.cross"] = said, source
    panels = [heat(site, trace.maps()[site][0, 0], *both) for site, both in axes.items()]
    return sheet("taught to say five letters backwards; rows of the decoder: what was said", panels)


def gpt() -> str:
    words, text = ["‹s›", "to", "be", "or", "not"], torch.tensor([[0, 1, 2, 3, 4, 1, 2]])
    config = GptConfig(vocabulary=5, width=16, hidden=32, num_heads=1, num_layers=1, placement="pre", start=0, end=0)
    model, trace = filled(build(config)), Trace()
    train(model, lambda step: F.cross_entropy(model(text)[0], text[0].roll(-1)), 60, 1e-2)
    logits, said = model(text, Site(trace=trace)), [words[i] for i in text[0]]
    looks = heat("looks at", trace.maps()["decoder.0.self"][0, 0], said, said)
    says = heat("says next", logits[0].softmax(-1), said, words)
    return sheet("one layer, 60 updates, one sentence", [looks, says])


def beam_search() -> str:
    page, names = Path(__file__).with_name("beam-search.md").read_text("utf-8"), dict[str, Any]()
    exec(page.split("```python")[1].split("```")[0], names)  # the model is the page's own
    words, walked, table = names["words"], tuple(names["greedy"].tokens), torch.tensor(names["table"]).double()
    places: dict[tuple[int, ...], tuple[int, float]] = {(): (GAP, 150.0)}
    edges, labels, parents = list[str](), [f'<text x="{GAP}" y="154">‹s›</text>'], [*places]
    for level in (1, 2, 3):  # a search that is cut there tells which are left
        how = Beam(size=2, num_best=2, max_length=level, length_penalty=0.0)
        kept = [tuple(hypothesis.tokens) for hypothesis in decode(names["Bigrams"](), Padded.of([[0]]), how)[0]]
        order = [(p, w) for p in parents for w in table[p[-1] if p else 0].argsort(descending=True).tolist()]
        row = [(*p, w) for p, w in order if table[p[-1] if p else 0, w] > 0.035]
        for i, said in enumerate(row):
            (before, at), places[said] = places[said[:-1]], (GAP + 160 * level, 300 * (i + 0.5) / len(row))
            x, y = places[said]
            color, start = BLUE if said in kept else GREY, before + (28 if level == 1 else 80)
            for shift, stroke in ((0, color), *[(5, RED)] * (said == walked[:level])):
                line = f"M{start} {at + shift:.1f}L{x - 6} {y + shift:.1f}"
                edges.append(f'<path d="{line}" stroke="{stroke}" stroke-width="2"/>')
            chance = table[[0, *said[:-1]], list(said)].prod().item()
            labels.append(f'<text x="{x}" y="{y + 4:.1f}" fill="{color}">{words[said[-1]]} {chance:.3f}</text>')
        parents = [said for said in row if said in kept]
    told = "how likely what is said so far is; blue: kept by a beam of 2; red: the greedy walk; grey: dropped"
    labels.append(f'<text x="{GAP}" y="{300 + 2 * FONT}">{markup(told)}</text>')
    return drawing(pixels(told, FONT), 300 + 3 * FONT, "beam search", [*edges, *labels])


def resume() -> str:
    config = GptConfig(vocabulary=11, width=16, hidden=32, num_heads=2, num_layers=1, dropout=0.1, placement="pre")
    how, apart = TrainConfig(steps=40, optimizer="adam"), dict[str, list[tuple[float, float]]]()

    def go_on(begun: int, counted: int) -> list[Tensor]:
        """The weights after each step from `begun` on, whose randomness is that of steps from `counted` on."""
        model = filled(build(config))
        weights = Weights(model, Optimizer(model, how), None)
        state = weights.restore(Path(folder, f"step-{begun}")) if begun else TrainState()
        after = []
        while state.step < 40:
            key = Key(0, ("step", state.step - begun + counted))
            text = torch.from_numpy(key.fold("text").generator().integers(3, 11, (4, 9)))
            model.zero_grad()
            F.cross_entropy(model(text[:, :-1], Site(key=key)).flatten(0, 1), text[:, 1:].flatten()).backward()
            weights.optimizer.move(how.rate(state.step, 40), ALONE)
            state = state.after(tokens=0, seconds=0.0, flops=0.0)
            after.append(nn.utils.parameters_to_vector(model.parameters()).detach())
            if state.step == 15:
                weights.save(Path(folder), state, keep=1)
        return after

    with TemporaryDirectory() as folder:
        runs = {"never stopped": go_on(0, 0), "taken up from step 15": go_on(15, 15)}
        runs["the same, randomness begun anew"] = go_on(15, 0)
    for name, run in runs.items():  # which end together
        pairs = zip(reversed(run), reversed(runs["never stopped"]), strict=False)
        # Last digits depend on the processor.
        apart[name] = [(40.0 - i, float(f"{float((a - b).abs().max()):.2g}")) for i, (a, b) in enumerate(pairs)]
    return curve(apart, "step", "largest difference of a weight", "how far from a run that was never stopped")


def serving() -> str:
    """A service that does 100 lines a second is asked for 500, from second 5 to second 20."""
    waits = dict[str, list[tuple[float, float]]]()
    for name, most in (("all are taken", float("inf")), ("refused beyond 3 s", Limits().wait)):
        pace, ahead, times = Pace(), 0.0, list[tuple[float, float]]()
        pace.add(100, 1.0)
        for tenth in range(400):
            for _ in range(50 if 50 <= tenth < 200 else 5):
                ahead += pace.time(int(ahead)) <= most
            times.append((tenth / 10, pace.time(int(ahead))))
            ahead = max(0.0, ahead - 10)
        waits[name] = times
    return curve(waits, "second", "seconds to wait", "five times too much, for 15 seconds")


def heat(title: str, weights: Tensor, rows: Sequence[str], columns: Sequence[str]) -> str:
    return Picture(list(columns), list(rows), weights.detach().tolist(), title).svg()


def sheet(title: str, panels: Sequence[str], rows: Sequence[int] = (3, 3, 3)) -> str:
    """Pictures side by side, so many in each row."""
    body, width, top, rest = [f'<text x="6" y="{GAP + 6}">{markup(title)}</text>'], 0, 2 * FONT + 6, list(panels)
    for count in rows:
        left = height = 0
        for panel in rest[:count]:
            wide, high = map(int, re.findall(r'(?:width|height)="(\d+)"', panel)[:2])
            body.append(panel.replace("<svg ", f'<svg x="{left}" y="{top}" ', 1).rstrip())
            left, height = left + wide + GAP, max(height, high)
        width, top, rest = max(width, left), top + height, rest[count:]
    return drawing(max(width, pixels(title, FONT)), top, title, body)


def numbers(count: int, name: str = "") -> list[str]:
    return [f"{name}{i}" for i in range(count)]


def drawn(name: str, *size: int) -> Tensor:
    return torch.from_numpy(Key(0, ("docs", name)).generator().standard_normal(size))


def filled(module: nn.Module) -> Any:
    """A module in float64, its matrices drawn by name, its biases 0, its norms as they are."""
    for name, parameter in module.double().named_parameters():
        if "norm" not in name:
            size = 0.0 if name.endswith("bias") else parameter.shape[-1] ** -0.5
            parameter.data = size * drawn(name, *parameter.shape)
    return module


def train(model: nn.Module, loss: Callable[[int], Tensor], updates: int, lr: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(updates):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()


DRAWINGS = (soft_lookup, scores, masks, positions, heads, transformer, beam_search, gpt, resume, serving)
PICTURES = {draw.__name__.replace("_", "-"): draw for draw in DRAWINGS}  # by the name of the page

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures"
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(), "utf-8")
