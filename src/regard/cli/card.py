"""The model card: what a model is, what it was trained on, what it cost, how good it is."""

from __future__ import annotations

import json
from pathlib import Path

from regard import __version__
from regard.progress import duration
from regard.recipe import dump
from regard.train.checkpoint import TrainState
from regard.train.config import Recipe
from regard.train.plan import Plan


def card(recipe: Recipe, plan: Plan, state: TrainState, folder: Path) -> str:
    """Markdown."""
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    best: dict[str, float] = next((entry for entry in entries if entry["step"] == state.best_step), {})
    scores = "\n".join(f"| {name} | {value:.4g} |" for name, value in best.items() if name not in ("step", "seconds"))
    trained = ", ".join(f"{c.source or c.pairs}" + (f" → {c.target}" if c.target else "") for c in recipe.data.train)
    return f"""# {folder.name}

A {recipe.model.kind} for {recipe.task}, trained by Regard {__version__}. `regard run {folder} < input.txt`

| trained on | {trained} |
|---|---|
| parameters | {plan.parameters:,} |
| updates | {state.step:,} (best: {state.best_step:,}) |
| target tokens seen | {state.tokens:,} |
| training FLOPs, matrix products counted | {state.flops:.3g} |
| wall time, evaluations included | {duration(state.seconds)} |
| machine | {plan.machine}, {plan.threads} threads, torch {plan.torch} |

On the validation data, at the best step:

| metric | value |
|---|---|
{scores}

The whole recipe:

```yaml
{dump(recipe)}```
"""
