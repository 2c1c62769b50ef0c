"""Which score? The same LSTM for the same minutes with each of them and without attention, a thread each.

    python -m bench.scores daily|multi30k MINUTES [AT_ONCE [FOLDER]]

Prints test BLEU and, where there is gold, the alignment error rate, each with its 95 % interval (bootstrap over
sentences, 1,000 samples), and training speed. A run that FOLDER holds already goes on where it stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from regard import load
from regard.data.config import PairsConfig
from regard.data.made import daily_columns
from regard.data.text import pairs
from regard.metrics.alignment import parse
from regard.metrics.text import sacrebleu_metric
from regard.rng import Key
from regard.tasks.translation.align import Aligned

MODELS = {
    "none": ["model.attention=null"],
    "dot": ["model.attention.score=dot"],
    "bilinear": ["model.attention.score=bilinear"],
    "additive": ["model.attention.score=additive"],
    "MLP": ["model.attention.score=mlp", "model.attention.score_hidden=[128]"],
    "scaled dot, projected": ["model.attention.score=scaled_dot", "model.attention.projection=[]"],
}
CORPORA = {
    "daily": ["data.train=[{corpus: daily/train}]", "data.valid=[{corpus: daily/valid}]"],
    "multi30k": ["data.train=[{corpus: multi30k/en-de/train}]", "data.valid=[{corpus: multi30k/en-de/valid}]"],
}
CORPORA["multi30k"] += ["data.tokenizer.vocabulary=5000", "train.label_smoothing=0.1"]
TESTS = {"daily": "daily/test", "multi30k": "multi30k/en-de/test"}


def main(corpus: str, minutes: str, at_once: int, folder: Path) -> None:
    def train(name: str) -> None:
        out = folder / f"{corpus}-{name.split(',')[0].replace(' ', '-')}"
        settings = [part for setting in [*CORPORA[corpus], *MODELS[name]] for part in ("--set", setting)]
        command = ["train", "recipes/scores.yaml", "--minutes", minutes, "--threads", "1", "--out", str(out), *settings]
        out.mkdir(parents=True, exist_ok=True)
        with (out / "log").open("w") as log:
            call = "from regard.cli.main import main; main()"
            subprocess.run([sys.executable, "-c", call, *command], check=True, stderr=log)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(train, MODELS))
    torch.set_num_threads(1)
    print(f"| {corpus}, {minutes} minutes | BLEU | alignment error rate | target tokens/s |\n|---|---|---|---|")
    for name in MODELS:
        out = folder / f"{corpus}-{name.split(',')[0].replace(' ', '-')}"
        print(f"| {name} | {bleu(out, corpus)} | {alignment(out, corpus, name)} | {speed(out):,.0f} |", flush=True)


def bleu(out: Path, corpus: str) -> str:
    test = list(pairs(PairsConfig(corpus=TESTS[corpus])))
    model = load(out)
    outputs = [model.text(found[0]) for found in model.hypotheses([pair.source for pair in test])]
    score = sacrebleu_metric("bleu").corpus_score(outputs, [[pair.target for pair in test]], n_bootstrap=1000)
    return f"{score.score:.1f} ± {score._ci:.1f}"


def alignment(out: Path, corpus: str, name: str) -> str:
    """The reading is chosen on validation sentences."""
    if corpus != "daily" or name == "none":
        return "–"
    model, found = load(out), {}
    for split in ("valid", "test"):
        sources, targets, links = daily_columns(split)
        gold = [parse(line, "daily") for line in links]
        found[split] = Aligned(model, sources, model.spelled(targets)), gold
    (valid, valid_gold), (aligned, gold) = found["valid"], found["test"]
    reading, _ = valid.best(valid_gold)
    said = [aligned.links(number, reading) for number in range(len(gold))]
    counts = np.array([(2 * len(a & s), len(a) + len(s)) for a, s in said])
    drawn = []
    for sample in range(1000):
        chosen = Key(0, ("aer", sample)).generator().integers(len(counts), size=len(counts))
        right, both = counts[chosen].sum(0)
        drawn.append(1 - right / both)
    right, both = counts.sum(0)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{1 - right / both:.3f} ({low:.3f} to {high:.3f})"


def speed(out: Path) -> float:
    """Of updates alone, evaluations not counted."""
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return float(entries[0]["tokens"] / entries[0]["seconds"])


if __name__ == "__main__":
    at_once, folder = [*sys.argv[3:], *["2", "runs/scores"][len(sys.argv) - 3 :]]
    main(sys.argv[1], sys.argv[2], int(at_once), Path(folder))
