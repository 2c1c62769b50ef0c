"""What helps a translator learn from the same tokens: Multi30k English to German, validation BLEU, three seeds each.

    REGARD_DATA=../shared/data python -m bench.ablation [NAME ...]      (each some 6 minutes on two cores)

Each is `recipes/multi30k-en-de.yaml` cut to 500 updates, with one change, on one thread, two at a time; killed and
started again, it goes on. So short a run says what is learned sooner, not what is learned at last. The table is also in
runs/ablation/table.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

FOLDER, SEEDS = Path("runs/ablation"), (0, 1, 2)
ALWAYS = ("train.steps=500", "train.evaluations=1", "train.checkpoints=4")
CHANGES: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "Adam": ("train.optimizer=adam", "train.lr=3e-3"),
    "slower": ("train.lr=3e-3",),
    "faster": ("train.lr=8e-3",),
    "sinusoids": ("model.position.kind=sinusoid",),
    "learned positions": ("model.position.kind=learned", "model.position.max_length=512"),
    "less dropout": ("model.dropout=0.1",),
    "4,000 words": ("data.tokenizer.vocabulary=4000",),
    "10,000 words": ("data.tokenizer.vocabulary=10000",),
    "norms after": ("model.placement=post",),
    "gated": ("model.activation=swiglu", "model.hidden=171"),
    "cosine": ("train.schedule=cosine",),
    "half as many updates, twice as large": ("train.steps=250", "train.batch_tokens=4096"),
    "twice as many, half as large": ("train.steps=1000", "train.batch_tokens=1024"),
    "averaged": ("train.average=0.99",),
}


def run(name: str, seed: int) -> dict[str, float]:
    out = FOLDER / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    settings = [f"--set={change}" for change in (*ALWAYS, f"train.seed={seed}", *CHANGES[name])]
    regard = str(Path(sys.executable).with_name("regard"))
    command = [regard, "train", "recipes/multi30k-en-de.yaml", "--threads", "1", "--out", str(out), *settings]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    found: dict[str, float] = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    print(f"{name}, seed {seed}: {found['bleu_tokenized']:.2f}", flush=True)
    return found


def main(names: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        waiting = {name: [pool.submit(run, name, seed) for seed in SEEDS] for name in names}
        found = {name: [run.result() for run in runs] for name, runs in waiting.items()}
    rows = ["| change | BLEU, 3 seeds | ± | loss | target tokens |", "|---|---|---|---|---|"]
    for name, runs in found.items():
        scores, losses = ([run[what] for run in runs] for what in ("bleu_tokenized", "valid_loss"))
        tokens = mean(run["tokens"] for run in runs)
        rows.append(
            f"| {name} | {mean(scores):.2f} | {stdev(scores):.2f} | {mean(losses):.3f} | {tokens / 1e6:.2f} M |"
        )
    table = "\n".join(rows) + "\n"
    (FOLDER / "table.md").write_text(table, "utf-8")
    print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CHANGES))
