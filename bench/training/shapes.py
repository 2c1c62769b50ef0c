"""What is trained and how, alike for all; read in both environments, so free of Regard and of rivals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("runs/bench")
CORPUS = "multi30k-tok/en-de/train"
VOCABULARY, DROPOUT, SMOOTHING = 8000, 0.3, 0.1
RATE, BETAS, EPSILON, CLIP = 5e-4, (0.9, 0.98), 1e-9, 1.0
PADDING, START, END = 0, 1, 2  # ids of Regard's tokenizers


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of a model, and how long it may be measured."""

    width: int
    layers: int
    """Of the encoder, and as many of the decoder."""
    hidden: int = 0
    heads: int = 1
    score: str | None = None
    """Of a recurrent model's attention: additive, fed back into the cell; or bilinear, not fed back."""
    batch_tokens: int
    seconds: float
    """Of all rounds together."""
    rivals: tuple[str, ...] = ("JoeyNMT",)
    note: str
    """What is alike, and what is not."""

    @property
    def batches(self) -> Path:
        return FOLDER / f"batches-{self.batch_tokens}.npz"


TRANSFORMERS = ("JoeyNMT", "Marian", "nn.Transformer")
LAYERED = (
    "Dropout at embeddings, attention weights, sub-layers' outputs and inside feed-forward layers; ReLU, sinusoids. "
    "Norms before the sub-layers, but Marian's after them (it knows no other)."
)
RECURRENT = (
    "Bidirectional LSTM of 2 x 128, decoder LSTM of 256, embeddings of 256, one layer each; words from tanh(W [s; c]). "
    "Dropout at source words, at the decoder's input and at the readout: JoeyNMT's before it (512 wide), ours after it "
    "(256). JoeyNMT's bridge makes h, and c is the same; ours makes both, from both. Ours has an output bias. "
)
SHAPES = {
    "tiny": Shape(
        width=128, layers=4, hidden=256, heads=4, batch_tokens=4096, seconds=160, rivals=TRANSFORMERS, note=LAYERED
    ),
    "base": Shape(
        width=512, layers=6, hidden=2048, heads=8, batch_tokens=1024, seconds=240, rivals=TRANSFORMERS, note=LAYERED
    ),
    "LSTM fed": Shape(
        width=256,
        layers=1,
        score="additive",
        batch_tokens=4096,
        seconds=80,
        note=f"{RECURRENT}Additive attention. JoeyNMT: s(t) looks, and the readout goes into the next step; "
        "ours: s(t-1) looks, and what it saw goes into this one.",
    ),
    "LSTM": Shape(
        width=256,
        layers=1,
        score="bilinear",
        batch_tokens=4096,
        seconds=80,
        note=f"{RECURRENT}Bilinear attention: s(t) looks, and nothing of it goes back into the cell, in both; "
        "JoeyNMT steps from word to word all the same.",
    ),
}
