"""The models that are decoded: a tiny one, trained, and the same function in the paper's base shape."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.config import PositionConfig
from regard.attention.encoding import Sinusoid
from regard.exchange.export import export
from regard.models.build import build
from regard.models.config import TransformerConfig
from regard.tasks.folder import Loaded, load_folder, save_model, save_tokenizers

FOLDER = Path("runs/bench")
RECIPE = "recipes/multi30k-en-de.yaml"
MINUTES = 6
LONGEST = 256  # positions of the base model
SOURCE, TARGET = (f"multi30k/tok/test_2016_flickr.lc.norm.tok.{language}" for language in ("en", "de"))


def make(given: Path | None) -> Path:
    """Folders of both shapes, as every contender reads them; a model that is given instead has to have sinusoids."""
    tiny, base = given or FOLDER / "tiny", FOLDER / "base"
    if not (tiny / "README.md").exists():
        print(f"training the tiny model for {MINUTES} minutes", file=sys.stderr, flush=True)
        settings = ["--set=model.position.kind=sinusoid", "--set=model.dropout=0.2", f"--minutes={MINUTES}"]
        regard = str(Path(sys.executable).with_name("regard"))
        subprocess.run([regard, "train", RECIPE, "--out", str(tiny), *settings], check=True)
    loaded = load_folder(tiny)
    if not (base / "config.json").exists():
        base.mkdir(parents=True, exist_ok=True)
        assert loaded.tokenizers is not None
        save_tokenizers(base, loaded.tokenizers)
        save_model(base, inflated(loaded.model), loaded.task, loaded.search, loaded.max_length, {})
    for name, folder in (("tiny", tiny), ("base", base)):
        for kind in ("native", "ctranslate2", "huggingface"):
            out = FOLDER / f"{name}-{kind}"
            if not out.exists():
                print(_export(load_folder(folder), kind, out), file=sys.stderr, flush=True)
    return tiny


def _export(loaded: Loaded, kind: str, out: Path) -> str:
    if kind == "huggingface" and loaded.config.position.kind == "learned":  # type: ignore[union-attr]
        loaded.model.config = replace(loaded.model.config, position=PositionConfig())  # the worker puts them back
        for embedding in (loaded.model.source_embedding, loaded.model.target_embedding):
            embedding.position.encoding = Sinusoid(loaded.model.config.width)
    return export(loaded, kind, out)


def inflated(tiny: Any) -> Any:
    """Base size, and the same outputs: what is 128 wide stands there four times, and what is added adds nothing."""
    config: TransformerConfig = tiny.config
    assert (config.width, config.hidden, config.num_heads, config.placement) == (128, 256, 4, "pre"), "no tiny model"
    shape = replace(config, width=512, hidden=2048, num_heads=8, encoder_layers=6, decoder_layers=6)
    base = build(replace(shape, position=PositionConfig(kind="learned", max_length=LONGEST)))
    twice = torch.arange(128).view(4, 32).repeat_interleave(2, 0).repeat(1, 2).flatten()  # heads of 32 as heads of 64

    def grown(name: str, w: Tensor) -> Tensor:
        if name.endswith("table"):
            return w.repeat(1, 4) / 2  # which is scaled by the root of the width
        if "to_q" in name or "to_k" in name or "to_v" in name:
            scaled = w[twice] * (0.5**0.5 if "to_q" in name else 1.0)
            return scaled.repeat(1, 4) / 4 if w.dim() == 2 else scaled
        if w.dim() == 1:
            return w.repeat(8 if "up.bias" in name else 4) * (0.5 if name.startswith("decoder.norm") else 1.0)
        if "to_out" in name:
            return w[:, twice].repeat(4, 1) / 4
        return w.repeat(8, 4) / 4 if "up" in name else w.repeat(4, 8) / 8

    weights = {name: grown(name, p.detach()) for name, p in tiny.named_parameters()}
    places = Sinusoid(128, config.position.layout)(torch.arange(LONGEST)).float().repeat(1, 4)
    with torch.no_grad():
        for name, p in base.named_parameters():
            if name.endswith("position.encoding.table"):
                p.copy_(places)
            elif name in weights:
                p.copy_(weights[name])
            elif "to_out" in name or "down" in name:  # of the layers that tiny has not
                p.zero_()
    return base
