"""The model card: what a model is, what it was trained on, what it cost, how good it is."""

from __future__ import annotations

from pathlib import Path

from regard import __version__
from regard.look.charts import curve
from regard.progress import duration
from regard.recipe import dump
from regard.tasks.config import BaseRecipe
from regard.tasks.registry import TASKS
from regard.tasks.task import Task
from regard.train.checkpoint import TrainState, log_entries
from regard.train.plan import Plan


def training_curve(folder: Path, metric: str) -> str:
    """The metric against minutes, as SVG."""
    numbers = ((entry.get("seconds"), entry.get(metric)) for entry in log_entries(folder / "metrics.jsonl"))
    points = [(x / 60, y) for x, y in numbers if isinstance(x, int | float) and isinstance(y, int | float)]
    return curve({metric: points}, "minutes", metric, folder.name)


def card(recipe: BaseRecipe, task: Task, plan: Plan, state: TrainState, folder: Path) -> str:
    """Markdown."""
    entries = (entry for entry in log_entries(folder / "metrics.jsonl") if entry.get("step") == state.best_step)
    best: dict[str, float] = next((entry for entry in entries if entry.get(task.primary[0]) == state.best), {})
    shown = {name: value for name, value in best.items() if name not in ("step", "seconds", "tokens")}
    scores = "\n".join(f"| {name} | {value:.4g} |" for name, value in shown.items() if isinstance(value, int | float))
    trained, what = ", ".join(map(str, recipe.corpora[0])), f"{recipe.model.kind} for {TASKS[recipe.task].purpose}"
    return f"""# {folder.name}

A {what}, trained by Regard {__version__}. `regard run {folder} < input.txt`

| trained on | {trained} |
|---|---|
| parameters | {plan.parameters:,} |
| updates | {state.step:,} (best: {state.best_step:,}) |
| {task.counts} seen | {state.tokens:,} |
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
