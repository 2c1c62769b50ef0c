"""The model card: what a model is, what it was trained on, what it cost, how good it is."""

from __future__ import annotations

from pathlib import Path

from regard import __version__
from regard.data.config import ExamplesConfig, PairsConfig, RunningText
from regard.look.charts import curve
from regard.progress import duration
from regard.recipe import dump
from regard.train.checkpoint import TrainState, log_entries
from regard.train.config import AnyRecipe, ReadRecipe
from regard.train.plan import Plan

PURPOSES = {
    "translation": "translation",
    "language": "language modelling",
    "masked": "guessing words",
    "bidirectional": "vectors of words",
}


def training_curve(folder: Path, metric: str) -> str:
    """The metric against minutes, as SVG."""
    numbers = ((entry.get("seconds"), entry.get(metric)) for entry in log_entries(folder / "metrics.jsonl"))
    points = [(x / 60, y) for x, y in numbers if isinstance(x, int | float) and isinstance(y, int | float)]
    return curve({metric: points}, "minutes", metric, folder.name)


def _told(corpus: PairsConfig | RunningText | ExamplesConfig) -> str:
    if isinstance(corpus, RunningText | ExamplesConfig):
        return corpus.file or str(corpus.corpus)
    made = " (synthetic)" if str(corpus.corpus).startswith(("daily/", "copy/")) else ""
    return f"{corpus.source or corpus.pairs or corpus.corpus}{made}" + (f" → {corpus.target}" if corpus.target else "")


def card(recipe: AnyRecipe, plan: Plan, state: TrainState, folder: Path) -> str:
    """Markdown."""
    entries = (entry for entry in log_entries(folder / "metrics.jsonl") if entry.get("step") == state.best_step)
    best: dict[str, float] = next((entry for entry in entries if state.best in entry.values()), {})
    shown = {name: value for name, value in best.items() if name not in ("step", "seconds", "tokens")}
    scores = "\n".join(f"| {name} | {value:.4g} |" for name, value in shown.items() if isinstance(value, int | float))
    counted = "examples" if isinstance(recipe, ReadRecipe) else "target tokens"
    purpose = PURPOSES.get(recipe.task, recipe.task)
    trained = ", ".join(map(_told, recipe.data.train))
    return f"""# {folder.name}

A {recipe.model.kind} for {purpose}, trained by Regard {__version__}. `regard run {folder} < input.txt`

| trained on | {trained} |
|---|---|
| parameters | {plan.parameters:,} |
| updates | {state.step:,} (best: {state.best_step:,}) |
| {counted} seen | {state.tokens:,} |
| training FLOPs, matrix products counted | {state.flops:.3g} |
| wall time, evaluations included | {duration(state.seconds)} |
| machine | {plan.machine}, {plan.processes} x {plan.threads} threads, torch {plan.torch} |

On the validation data, at the best step:

| metric | value |
|---|---|
{scores}

The whole recipe:

```yaml
{dump(recipe)}```
"""
